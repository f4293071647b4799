"""A runner that is stopped, or cut off from its sink, in the middle of its work, and comes back when another has long
taken its place: none of its late results is in any sink. Real processes and servers; the cut is a wire of the test's.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runners import Process, frozen_for_a_while, stopped_between_commits
from sink_places import PLACES, Place
from wire import Wire

from tests.support.waiting import wait_until

SHUT_OUT = sorted(kind for kind, place in PLACES.items() if place.shuts_out)
SERVERS = sorted(kind for kind in SHUT_OUT if PLACES[kind].is_server)


def one_for_every_change(kinds: list[str], one: str) -> list[Any]:
    """That each kind shuts out whoever was followed is in ``tests/contract/test_sinks.py``."""
    return [kind if kind == one else pytest.param(kind, marks=pytest.mark.long) for kind in kinds]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = PLACES[request.param](tmp_path)
    yield made
    made.close()


def serials(place: Place) -> list[int]:
    """Of all results that readers find."""
    return [serial for serial, *_ in place.there()]


def follow(old: Process, new: Process, place: Place) -> None:
    """Another runner does all of it, while the one before it does nothing."""
    before = serials(place)
    assert 0 < len(before) < 60, "it was stopped too late"
    assert new.ask("push", 60)[0] == [60]
    wait_until(lambda: len(serials(place)) >= 61)


def nothing_late_is_there(old: Process, new: Process, place: Place) -> None:
    """Both are told more, and the one that was followed takes nothing."""
    wait_until(lambda: old.ask("push", 61)[0] == [])
    assert new.ask("push", 61)[0] == [61]
    wait_until(lambda: len(serials(place)) >= 62)
    assert serials(place) == list(range(62))


@pytest.mark.parametrize("place", one_for_every_change(SHUT_OUT, "sql"), indirect=True)
def test_a_runner_that_stopped_adds_nothing_to_a_sink(place: Place, tmp_path: Path, processes: list[Process]) -> None:
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


@pytest.mark.parametrize("place", one_for_every_change(SERVERS, "redis"), indirect=True)
def test_what_was_sent_to_a_sink_cut_off_is_too_late(place: Place, tmp_path: Path, processes: list[Process]) -> None:
    journals = tmp_path / "journals"
    with Wire(place.port) as wire:
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
