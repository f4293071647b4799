"""What the benchmark of light streams rests on: the same work for all, a check that finds faults, a peer that lacks."""

from __future__ import annotations

import json
import sys

import pytest

from apps import registry
from lab.benchmarks.light import peers
from lab.benchmarks.light.ours import APPS, NAMES
from lab.benchmarks.light.work import STAGES, Check, loops_for


def test_our_stages_do_what_those_of_the_peers_do() -> None:
    app = registry.create("light", {"loops": 3}, [APPS])
    value = 7
    for name in NAMES:
        value = getattr(app, name)(value)
    assert value == 7 + STAGES


@pytest.mark.parametrize(
    "bundles",
    [
        pytest.param([[4, 5], [6]], id="one is missing"),
        pytest.param([[4, 5], [5, 6], [7]], id="one came twice"),
        pytest.param([[6, 7], [4, 5]], id="two bundles are swapped"),
        pytest.param([[4, 5], [6, 8]], id="one is wrong"),
        pytest.param([], id="nothing came"),
    ],
)
def test_a_check_finds_what_a_plain_loop_would_not_give(bundles: list[list[int]]) -> None:
    check = Check()
    for bundle in bundles:
        check.take(bundle)
    with pytest.raises(ValueError, match="a plain loop has 4 items, sum 22"):
        check.verify(4, "somebody")


def test_a_check_takes_what_a_plain_loop_gives() -> None:
    check = Check()
    check.take([4, 5, 6])
    check.take([7])
    check.verify(4, "somebody")


def test_more_work_is_more_loops() -> None:
    assert loops_for(0) == 0
    assert 1 <= loops_for(1) < loops_for(1000)


@pytest.mark.parametrize("name", ["bytewax", "pathway"])
def test_a_peer_that_is_not_installed_is_a_sentence(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["peers", name, "light", "0"])
    peers.serve()
    told = json.loads(capsys.readouterr().out)
    assert told == {"there": False, "text": f"{name} is not installed: pip install 'recompose[peers]'"}
