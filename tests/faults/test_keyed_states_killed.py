"""A runner is killed again and again under states of keys, each time with other groups: what is in its sink in
the end is what a plain loop over the items gives. Real processes."""

import signal
from pathlib import Path

import pytest
from runners import Process
from sink_places import PLACES

from apps import registry
from tests.support.waiting import wait_until

APPS = Path(__file__).parent / "apps"
ITEMS, ROUNDS = 100, 3
"""To each runner; some are not out when it dies."""
SHAPES = ("Par*3-Seq", "Par(f1,f2)", "Seq(f1,f2)")


def serial_run(numbers: range) -> list[int]:
    app = registry.create("totals", apps_dirs=[APPS])
    states: dict[str, tuple[int, int] | None] = {}
    out = []
    for number in numbers:
        key = app.total_key(number)
        result, states[key] = app.total(number, states.get(key))
        out.append(result)
    return out


@pytest.mark.parametrize("durability", [pytest.param("restart", marks=pytest.mark.long), "exactly-once"])
def test_the_sink_has_what_a_serial_run_gives(tmp_path: Path, processes: list[Process], durability: str) -> None:
    place, acknowledged = PLACES["sql"](tmp_path), 0
    spec = {"app": "totals", "apps_dirs": [str(APPS)], "options": {}, "durability": durability}
    for epoch in range(1, ROUNDS + 1):
        shape = {"batching": {"items": 3 * epoch}, "mode": "pinned", "composition": SHAPES[epoch % len(SHAPES)]}
        runner = Process(epoch, tmp_path / "journals", place.kind, place.path, **spec, **shape)
        processes.append(runner)
        before = len(place.there())
        while acknowledged < ITEMS * epoch:
            acknowledged += len(runner.ask("push", *range(acknowledged, acknowledged + 20))[0])
        wait_until(lambda before=before: len(place.there()) > before)
        if epoch < ROUNDS:
            runner.signal(signal.SIGKILL)
    wait_until(lambda: len(place.there()) >= acknowledged)
    found = place.there()
    assert [(serial, value) for serial, _, value, _ in found] == list(enumerate(serial_run(range(acknowledged))))
