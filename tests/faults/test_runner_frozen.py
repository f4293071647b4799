"""A runner that is killed again and again, stopped and let go on later, or cut off from its sink, while another goes on
with its run: none of its late results is in any sink. Real processes and servers; the cut is a wire of the test's."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runners import Process, frozen_for_a_while, stopped_between_commits
from sink_places import PLACES, SinkPlace

from apps import registry
from tests.support.relay import Relay
from tests.support.waiting import wait_until

SHUT_OUT = sorted(kind for kind, place in PLACES.items() if place.shuts_out)
SERVERS = sorted(kind for kind in SHUT_OUT if PLACES[kind].is_server)
APPS = Path(__file__).parent / "apps"
ITEMS, ROUNDS = 100, 3
"""To each runner; some are not out when it dies."""
SHAPES = ("Par*3-Seq", "Par(f1,f2)", "Seq(f1,f2)")


def one_for_every_change(kinds: list[str], one: str) -> list[Any]:
    """That each kind shuts out whoever was followed is in ``tests/contract/test_sinks.py``."""
    return [kind if kind == one else pytest.param(kind, marks=pytest.mark.long) for kind in kinds]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SinkPlace]:
    made = PLACES[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def wire(place: SinkPlace) -> Iterator[Relay]:
    """A way to the place that the test can cut."""
    made = Relay(place.down.port)
    yield made
    made.end()


def serials(place: SinkPlace) -> list[int]:
    """Of all results that readers find."""
    return [serial for serial, *_ in place.there()]


def follow(old: Process, new: Process, place: SinkPlace) -> None:
    """Another runner does all of it, while the one before it does nothing."""
    before = serials(place)
    assert 0 < len(before) < 60, "it was stopped too late"
    assert new.ask("push", 60)[0] == [60]
    wait_until(lambda: len(serials(place)) >= 61)


def nothing_late_is_there(old: Process, new: Process, place: SinkPlace) -> None:
    """Both are told more, and the one that was followed takes nothing."""
    wait_until(lambda: old.ask("push", 61)[0] == [])
    assert new.ask("push", 61)[0] == [61]
    wait_until(lambda: len(serials(place)) >= 62)
    assert serials(place) == list(range(62))


@pytest.mark.parametrize("place", one_for_every_change(SHUT_OUT, "sql"), indirect=True)
def test_a_runner_that_stopped_adds_nothing_to_a_sink(
    place: SinkPlace, tmp_path: Path, processes: list[Process]
) -> None:
    journals = tmp_path / "journals"
    processes.append(old := Process(1, journals, place.kind, place.path))
    assert len(old.ask("push", *range(60))[0]) == 60
    wait_until(lambda: len(serials(place)) >= 5)
    databases = [journals / "synthetic" / "r.journal", *tmp_path.glob("*.db")]  # sink sql has its own
    wait_until(lambda: stopped_between_commits(old, *databases))
    processes.append(new := Process(2, journals, place.kind, place.path))
    follow(old, new, place)
    frozen_for_a_while()
    old.signal(signal.SIGCONT)
    nothing_late_is_there(old, new, place)
    refusal = old.ask("push", 62)[1]
    assert "may not write any more" in refusal or "accepts no more items" in refusal
    assert old.ask("results")[-1:] < [60], "it shows nothing of the other's epoch"


@pytest.mark.parametrize("place", one_for_every_change(SERVERS, "redis"), indirect=True)
def test_what_was_sent_to_a_sink_cut_off_is_too_late(
    place: SinkPlace, wire: Relay, tmp_path: Path, processes: list[Process]
) -> None:
    journals = tmp_path / "journals"
    processes.append(old := Process(1, journals, place.kind, place.by_way_of(wire.port)))
    assert len(old.ask("push", *range(60))[0]) == 60
    wait_until(lambda: len(serials(place)) >= 5)
    wire.cut()
    wait_until(lambda: wire.held_bytes > 0)
    processes.append(new := Process(2, journals, place.kind, place.path))
    follow(old, new, place)
    frozen_for_a_while()
    wire.join()
    wait_until(lambda: wire.held_bytes == 0)
    nothing_late_is_there(old, new, place)


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
