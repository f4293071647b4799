"""ARCHITECTURE.md is the way in: what it names is there, and no module of the rooms that it explains is missing."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.house import ours

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
EXPLAINED = ("control", "runtime", "service")


def in_rooms() -> set[str]:
    """Files of the table of all modules: a row a room, its modules without ``.py``."""
    table = TEXT.split("## Every module, room by room")[1]
    rows = re.findall(r"^\| `([a-z_/]+)/` \| (.+) \|$", table, re.MULTILINE)
    return {f"{room}/{name}.py" for room, cells in rows for name in re.findall(r"`(\w+)`", cells)}


def of_floors() -> set[str]:
    """Rooms of the table of floors, and what is named of each."""
    rows = re.findall(r"^\| \d \| `([a-z_/]+/)` \|[^|]+\| (.+) \|$", TEXT, re.MULTILINE)
    return {room for room, _ in rows} | {
        room + name for room, told in rows for name in re.findall(r"`(\w+(?:\.py|/))`", told)
    }


def test_what_it_names_is_there() -> None:
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", TEXT)) | in_rooms() | of_floors()
    assert len(named) > 150
    gone = sorted(each for each in named if not (ROOT / each).exists())
    assert gone == []


def test_no_module_of_its_rooms_is_missing() -> None:
    files = {module.file for module in ours().modules if module.name.split(".")[0] in EXPLAINED}
    modules = {file for file in files if not Path(file).name.startswith("__")}
    missing = sorted(modules - in_rooms())
    assert missing == [], "the table of modules in ARCHITECTURE.md does not name them"


def test_its_walks_name_what_the_modules_define() -> None:
    """``Class.method`` or ``Class`` beside a module: somewhere in ours there is such a thing."""
    source = "\n".join(module.text for module in ours().modules)
    named = set(re.findall(r"`([A-Z][A-Za-z]+)(?:\.(\w+))?(?:\([\w()]*\))?`", TEXT))
    for owner, method in named - {("App", "")}:
        assert re.search(rf"^\s*(?:class {owner}\b|{owner} = )", source, re.MULTILINE), owner
        assert not method or re.search(rf"def {method}\b", source), f"{owner}.{method}"
