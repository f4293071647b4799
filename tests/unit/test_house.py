"""The house keeps its measures (``benchmarks/house.py``): what has been divided does not grow together again."""

from __future__ import annotations

import grimp
import pytest

from benchmarks.house import RULES, House, Module, Rule, ours, table


@pytest.fixture(scope="module")
def house() -> House:
    return ours()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text)
def test_the_house_keeps_its_measures(house: House, rule: Rule) -> None:
    assert len(list(rule.find(house))) <= rule.limit, "\n".join(table(house, [rule]))


BAD = "\n".join(
    [
        "class City:",
        *(f"    field{number}: dict[str, Any]" for number in range(31)),
        *(f"    def method{number}(self): self.kept = 1" for number in range(21)),
        "    def wide(self, a, b, c, d, e, f, *g): self.call('method1')",
        "class Wide:",
        *(f"    field{number}: int" for number in range(21)),
        "def long():",
        *["    pass"] * 300,
    ]
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text)
def test_each_rule_finds_what_it_is_for(rule: Rule) -> None:
    imports = grimp.ImportGraph()
    for name in ("service", "service.bad", *(f"service.m{number}" for number in range(13))):
        imports.add_module(name)
    for number in range(13):
        imports.add_import(importer="service.bad", imported=f"service.m{number}")
    assert len(list(rule.find(House((), imports)))) == 0
    imports.add_import(importer="service.m1", imported="service.bad")
    bad = House((Module("service.bad", "service/bad.py", BAD),), imports)
    assert len(list(rule.find(bad))) == max(1, rule.limit + 1)
