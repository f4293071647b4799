"""A source that is held back tells what there was room for, not what users ask for."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from control.forecast.load.arrivals import Unhindered
from control.load_anticipation import LoadAnticipation
from profiler.snapshot import InputNow, Snapshot
from profiler.source_reading import SourceReading
from service.runner.wiring.run import Intake

TURN_S = 0.25
USERS_PER_S = 60.0


def shot(now_s: float, arrived: int, held_back_s: float) -> Snapshot:
    seen = InputNow((), None, arrived, held_back_s)
    return Snapshot(
        now_s, "1", False, 0.0, now_s - 10, None, None, 100, None, None, 0, 0.0, 1, (), 4, 1, 3e-4, seen
    )  # fmt: skip


def looked(parts: Iterable[tuple[float, float, float]], seed: int = 0) -> Snapshot:
    """The latest of turns in which so many items a second were read, and no room for a share of the time: (s, items/s,
    share)."""
    lookout, draw, now_s, arrived, held_s = LoadAnticipation(1.5, 10.0), np.random.default_rng(seed), 0.0, 0, 0.0
    seen = lookout.seen(shot(0.0, 0, 0.0), None)
    for lasts_s, rate_per_s, share in parts:
        for _ in range(round(lasts_s / TURN_S)):
            now_s, held_s = now_s + TURN_S, held_s + share * TURN_S
            arrived += int(draw.poisson(rate_per_s * TURN_S))
            seen = lookout.seen(shot(now_s, arrived, held_s), None)
    return seen


def present(snapshot: Snapshot) -> float:
    assert snapshot.outlook is not None
    return snapshot.outlook.present_per_s


def moves(snapshot: Snapshot) -> bool:
    assert snapshot.outlook is not None
    return snapshot.outlook.moving


def test_what_a_full_app_lets_in_is_not_what_users_ask_for() -> None:
    seen = looked([(10, USERS_PER_S, 0.0), (10, 20.0, 0.7)])
    assert present(seen) == pytest.approx(USERS_PER_S, rel=0.1)
    assert not moves(seen), "the load rests: it is the room that changed"


def test_with_room_again_it_is_as_if_nothing_had_been() -> None:
    seen = looked([(10, USERS_PER_S, 0.0), (10, 20.0, 0.7), (10, USERS_PER_S, 0.0)])
    assert present(seen) == pytest.approx(USERS_PER_S, rel=0.1)
    assert not moves(seen)


def test_more_than_was_believed_is_the_least_that_is_asked_for() -> None:
    assert present(looked([(10, 20.0, 0.0), (10, USERS_PER_S, 0.7)])) == pytest.approx(USERS_PER_S, rel=0.1)


def test_who_always_has_more_is_known_by_what_is_taken() -> None:
    assert present(looked([(60, 20.0, 0.9)])) == pytest.approx(20.0, rel=0.15)


def test_a_load_that_falls_while_there_is_room_is_seen() -> None:
    seen = looked([(10, USERS_PER_S, 0.0), (5, 40.0, 0.7), (10, 10.0, 0.0)])
    assert present(seen) == pytest.approx(10.0, rel=0.3)


def test_a_moment_without_room_is_none() -> None:
    assert present(looked([(10, USERS_PER_S, 0.0), (10, 30.0, 0.05)])) == pytest.approx(30.0, rel=0.2)


def test_clock_and_count_leave_out_the_same_turns() -> None:
    counting = Unhindered()
    assert counting.count(1.0, InputNow((), None, 10, 0.0), 10.0, waiting=False) == (1.0, 10)
    assert counting.count(2.0, InputNow((), None, 14, 0.9), 10.0, waiting=True) is None
    assert counting.count(3.0, InputNow((), None, 18, 0.9), 10.0, waiting=True) is None, "few came: there was room"
    assert counting.count(4.0, InputNow((), None, 29, 0.9), 10.0, waiting=False) == (2.0, 21)


def test_the_time_without_room_is_summed_up_while_it_lasts() -> None:
    reading = SourceReading()
    reading.held_back(1.0, held=True)
    assert reading.held_back_s(1.5) == 0.5
    reading.held_back(2.0, held=True)
    reading.held_back(3.0, held=False)
    reading.held_back(4.0, held=True)
    assert reading.held_back_s(4.5) == 2.5


@pytest.mark.parametrize(
    ("why", "bundle", "room", "waits", "handed_over", "held"),
    [
        ("the next bundle is still gathered", 64, False, True, 0, False),
        ("the next bundle is there, too", 64, False, True, 2, True),
        ("small bundles: the buffer has room, but no worker has the one that waits", 16, True, True, 2, True),
        ("item by item the buffer has room", 1, True, True, 0, False),
        ("item by item it is full", 1, False, True, 2, True),
    ],
)
def test_a_source_is_held_back_where_it_waits_itself(
    why: str, bundle: int, room: bool, waits: bool, handed_over: int, held: bool
) -> None:
    told: list[bool] = []
    source = SimpleNamespace(
        take=lambda most: [], offered_per_s=lambda now_s: None, set_patient=lambda patient: None, start=lambda: None,
        held_back=handed_over == 2, batching=SimpleNamespace(items=bundle),
        offer=lambda: SimpleNamespace(slots=0, missed=0, lag_s=0.0),
    )  # fmt: skip
    engine = SimpleNamespace(
        now_s=1.0, has_room=room, waits=waits, sheds=False, view=lambda: SimpleNamespace(workers=("w",), accepted=0)
    )
    monitor = SimpleNamespace(
        set_offered_rate=lambda *_: None, record_demand=lambda *_: None, record_arrivals=lambda *_: None,
        record_held_back=lambda at_s, *, held: told.append(held),
    )  # fmt: skip
    bundling = SimpleNamespace(tell=lambda demand: demand)
    parts = cast(tuple[Any, Any, Any, Any], (source, engine, monitor, bundling))
    Intake(*parts, 1, lambda: 0).feed(lambda: True)
    assert told == [held], why
