"""What the page offers to choose from is what the service takes."""

import re
from pathlib import Path

from control.strategies import STRATEGIES
from datapipe.source_kinds import KINDS

ACT = (Path(__file__).parents[2] / "service" / "dashboard" / "act.js").read_text(encoding="utf-8")


def test_the_page_offers_every_strategy() -> None:
    (listed,) = re.findall(r"^const STRATEGIES = \[(.+)\];$", ACT, re.MULTILINE)
    assert re.findall(r'\["([\w-]+)",', listed) == list(STRATEGIES)


def test_the_page_offers_every_source_that_a_path_or_nothing_describes() -> None:
    (listed,) = re.findall(r'name: "kind".+?options: \[(.+)\] \}\);$', ACT, re.MULTILINE)
    assert set(re.findall(r'\["([\w-]+)",', listed)) == {kind.name for kind in KINDS.values() if not kind.driven}
