"""The house keeps its measures (``tests/support/house.py``): what has been divided does not grow together again."""

import importlib.util
import re
from pathlib import Path

import grimp
import pytest

from tests.support.house import ROOM_FILES, RULES, House, Module, Rule, ours


@pytest.fixture(scope="module")
def house() -> House:
    return ours()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text)
def test_the_house_keeps_its_measures(house: House, rule: Rule) -> None:
    found = list(rule.find(house))
    assert len(found) <= rule.limit, "\n".join(map(str, found))


BAD = "\n".join(
    [
        '"""What it is."""',
        "class City:",
        *(f"    field{number}: dict[str, Any]" for number in range(31)),
        *(f"    def method{number}(self): self.kept = 1" for number in range(21)),
        "    def calls(self): self.call('method1')",
        "class Wide:",
        *(f"    field{number}: int" for number in range(21)),
        "def long():",
        *["    pass"] * 400,
    ]
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text)
def test_each_rule_finds_what_it_is_for(rule: Rule) -> None:
    imports = grimp.ImportGraph()
    names = ["service.bad", *(f"service.m{number}" for number in range(ROOM_FILES))]
    for name in ("service", *names):
        imports.add_module(name)
    assert len(list(rule.find(House((), imports)))) == 0
    for first, name in enumerate(names):
        for other in names[first + 1 :]:
            imports.add_import(importer=name, imported=other)
    imports.add_import(importer="service.m0", imported="service.bad")
    imports.add_import(importer="service", imported="service.m9")
    imports.add_import(importer="service.m9", imported="service")
    modules = [Module(name, f"{name.replace('.', '/')}.py", BAD if name == "service.bad" else "") for name in names]
    assert list(rule.find(House(tuple(modules), imports)))


TESTS = """
from pathlib import Path

def test_flaky():
    once = Path(__file__).with_name("once")
    if not once.exists():
        once.touch()
        raise AssertionError

def test_red(): raise AssertionError
def test_green(): pass
"""


def test_what_fails_beside_others_and_passes_alone_is_flaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("lanes", Path(__file__).parents[1] / "lanes.py")
    lanes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lanes)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    monkeypatch.chdir(tmp_path)
    assert lanes.run(([], ["test_some.py"]), "not long") == (["test_some.py::test_red"], ["test_some.py::test_flaky"])


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
