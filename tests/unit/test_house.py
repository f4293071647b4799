"""The house keeps its measures (``tests/support/house.py``): what has been divided does not grow together again."""

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
