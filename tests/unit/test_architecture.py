"""ARCHITECTURE.md leads to the rooms: every file and folder that it names exists, and it stays short."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
MOST_CHARACTERS = 12_000


def test_named_files_and_folders_exist() -> None:
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.(?:py|js))?)`", TEXT))
    rooms = re.findall(r"^\| \d \| `([a-z]+/)` \| (.+) \|$", TEXT, re.MULTILINE)
    named |= {room + part for room, parts in rooms for part in re.findall(r"`([a-z]+/)`", parts)}
    named -= {part for _, parts in rooms for part in re.findall(r"`([a-z]+/)`", parts)}
    assert len(named) > 50
    assert sorted(each for each in named if not (ROOT / each).exists()) == []


def test_tasks_of_newcomers_name_at_most_four_files() -> None:
    tasks = dict(
        re.findall(r"^\| ([a-z][^|]+) \| (.+) \|$", TEXT.partition("## Where to change what")[2], re.MULTILINE)
    )
    assert len(tasks) >= 10
    many = {task: files for task, files in tasks.items() if len(re.findall(r"`[a-z_/]+/[a-z_]*(?:\.\w+)?`", files)) > 4}
    assert many == {}


def test_it_is_read_in_ten_minutes() -> None:
    assert len(TEXT) <= MOST_CHARACTERS
