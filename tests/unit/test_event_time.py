"""Windows and timers by event time: 100 random streams with late items against DuckDB, and the rules one by one."""

import itertools
import operator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from apps.event_time import (
    END,
    Clock,
    KeyedPane,
    KeyedWindows,
    Late,
    Pane,
    Reading,
    Sessions,
    Sliding,
    Slots,
    Tumbling,
    Window,
    Windowing,
    with_timer,
)
from compositions.errors import RecomposeError


class Event(NamedTuple):
    serial: int
    key: int
    time: int
    value: int


class Stream(NamedTuple):
    """One that was drawn: its events, in the order in which they come, and what is asked of it."""

    number: int
    events: list[Event]
    behind: int
    lateness: int
    size: int
    every: int


def add(total: int | None, event: Event) -> int:
    return (total or 0) + event.value


def drawn(number: int) -> Stream:
    chance, at = Random(number), 0
    events = []
    for serial in range(150):
        at += chance.choice((0, 0, 1, 2, 3, 8, 40))
        late = chance.choice((0, 0, 0, 1, 5, 20, 60))
        events.append(Event(serial, chance.randrange(4), at - chance.randint(0, late), chance.randint(1, 99)))
    return Stream(number, events, chance.choice((0, 3, 10)), chance.choice((0, 0, 7, 30)), chance.randint(1, 25),
                  chance.randint(1, 12))  # fmt: skip


STREAMS = [drawn(number) for number in range(100)]
KINDS = {
    "tumbling": lambda stream: Tumbling(stream.size),
    "sliding": lambda stream: Sliding(stream.size, stream.every),
    "sessions": lambda stream: Sessions(stream.size),
}
MARKED = """
with marked as (select *, max(time) over (partition by stream order by serial) - behind as watermark from events),
"""
PLACED = """
placed as (select *, unnest(range((floor((time - size) / {every}) + 1)::bigint, floor(time / {every})::bigint + 1))
                  * {every} as start from marked)
"""
NUMBERED = """
ordered as (select *, coalesce(time - lag(time) over (partition by stream, key order by time) > size, true) as first
            from marked where time >= watermark - lateness),
numbered as (select *, sum(first::int) over (partition by stream, key order by time rows unbounded preceding) as n
             from ordered)
"""
ROWS = {"tumbling": PLACED.format(every="size"), "sliding": PLACED.format(every="every"), "sessions": NUMBERED}
IN_PLACED = """
select stream, key, start, start + size as stop, sum(value)::bigint from placed
where start + size > watermark - lateness group by all order by all
"""
IN_NUMBERED = """
select stream, key, min(time), max(time) + max(size), sum(value)::bigint from numbered
group by stream, key, n order by all
"""
LATE_PLACED = "select stream, serial from placed where start + size <= watermark - lateness group by all order by all"
LATE_NUMBERED = "select stream, serial from marked where time < watermark - lateness order by all"


def sql(kind: str, fixed: str, sessions: str) -> str:
    return MARKED + ROWS[kind] + (sessions if kind == "sessions" else fixed)


def answers(query: str) -> list[tuple[Any, ...]]:
    names = ("stream", "behind", "lateness", "size", "every", "serial", "key", "time", "value")
    rows = [(s.number, s.behind, s.lateness, s.size, s.every, *event) for s in STREAMS for event in s.events]
    events = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    with duckdb.connect() as database:
        database.register("events", events)
        return database.execute(query).fetchall()


@cache
def told_of(number: int, kind: str, ticks: bool, lateness: int | None = None) -> list[KeyedPane]:
    """In order of the stream; without ``ticks`` a key hears of its own events only, until the end."""
    stream = STREAMS[number]
    lateness = stream.lateness if lateness is None else lateness
    windows = KeyedWindows(Windowing(KINDS[kind](stream), add, merge=operator.add, lateness=lateness))
    clock, reading, states, panes = Clock(stream.behind, every=10), None, {}, []
    for event in stream.events:
        tick, reading = clock.seen(reading, event.time)
        if ticks and tick is not None:
            panes += windows.advance(states, tick)
        panes += windows.put(states, event.key, event.time, event, reading.watermark)
    tick, _ = clock.seen(reading, END)
    assert tick == END
    panes += windows.advance(states, tick)
    assert states == {}
    return panes


def final(panes: list[KeyedPane]) -> dict[tuple[int, Window], int]:
    """What is true after all corrections; each of them corrects what was told and still held."""
    table: dict[tuple[int, Window], int] = {}
    for key, pane in panes:
        if isinstance(pane, Pane):
            for window in pane.replaces:
                del table[key, window]
            assert (key, pane.window) not in table
            table[key, pane.window] = pane.value
    return table


@pytest.mark.parametrize("ticks", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_random_streams_are_those_that_duckdb_finds(kind: str, ticks: bool) -> None:
    rows = sorted(
        (stream.number, key, *window, value)
        for stream in STREAMS
        for (key, window), value in final(told_of(stream.number, kind, ticks)).items()
    )
    assert len(rows) > 1000
    assert rows == answers(sql(kind, IN_PLACED, IN_NUMBERED))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_late_is_told_and_is_what_duckdb_leaves_out(kind: str) -> None:
    rows = sorted(
        (stream.number, late.value.serial)
        for stream in STREAMS
        for _, late in told_of(stream.number, kind, True)
        if isinstance(late, Late)
    )
    assert len(rows) > 300
    assert rows == answers(sql(kind, LATE_PLACED, LATE_NUMBERED))


@pytest.mark.parametrize("kind", KINDS)
def test_without_lateness_nothing_is_corrected(kind: str) -> None:
    panes = [pane for number in range(20) for _, pane in told_of(number, kind, True, lateness=0)]
    assert not any(pane.replaces for pane in panes if isinstance(pane, Pane))


def sums(kind: Tumbling | Sliding | Sessions, lateness: float = 0) -> Windowing:
    return Windowing(kind, lambda total, value: (total or 0) + value, merge=operator.add, lateness=lateness)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Tumbling(0), "size = 0; must be a number above 0"),
        (lambda: Sliding(5, -1), "every = -1; must be a number above 0"),
        (lambda: Sessions(float("nan")), "gap = nan; must be a number above 0"),
        (lambda: Clock(behind=-1), "behind = -1; must be a number, 0 or more"),
        (lambda: Clock(every=0), "every = 0; must be a number above 0"),
        (lambda: Windowing(Sessions(1), add), "an event can join two sessions; give merge="),
        (lambda: Windowing(Tumbling(1), add, lateness=-1), "lateness = -1; must be a number, 0 or more"),
        (lambda: Windowing(Tumbling(1), add, lateness="3"), "lateness = '3'; must be a number, 0 or more"),  # type: ignore[arg-type]
        (lambda: Windowing("day", add), "kind = 'day'; must be Tumbling, Sliding or Sessions"),  # type: ignore[arg-type]
        (lambda: Clock(behind="1"), "behind = '1'; must be a number, 0 or more"),  # type: ignore[arg-type]
        (lambda: with_timer((), float("nan"), "a"), "timer 'a': time = nan; must be a number, or END"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(RecomposeError) as refused:
        make()
    assert sentence in str(refused.value)


@pytest.mark.parametrize("unit", [1, 1_000, 60 * 10**9, 10**25])
def test_times_of_a_nanosecond_clock_are_in_their_window_and_behind_their_tick(unit: int) -> None:
    """A quotient of floats would round the last nanosecond of a minute to the next minute."""
    for number in (28_333_333, -28_333_333, 10**12):
        for time in (number * unit - 1, number * unit, number * unit + 1):
            (window,) = Tumbling(unit).of(time)
            assert window.start <= time < window.end == window.start + unit
            assert window.start in [each.start for each in Sliding(unit * 2, unit).of(time)]
            tick, reading = Clock(every=unit).seen(None, time)
            assert tick == window.start <= reading.watermark == time


@pytest.mark.parametrize("kind", [Tumbling(0.1), Tumbling(0.7), Sliding(0.1, 0.1), Sliding(0.3, 0.1)], ids=str)
def test_windows_of_fractions_have_their_events_and_leave_no_gap(kind: Sliding) -> None:
    for time in (*(n / 1000 for n in range(-999, 999)), *(n * kind.every for n in range(-999, 999))):
        windows = kind.of(time)
        assert windows
        assert all(window.start <= time < window.end for window in windows)
        assert Clock(every=kind.every).seen(None, time)[0] == windows[-1].start
    if kind.size == kind.every:
        ends = [kind.of(n * kind.every)[0] for n in range(-999, 999)]
        assert all(before.end == after.start for before, after in itertools.pairwise(ends))


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -float("inf"), 1e300, None, "5"])
def test_what_is_no_time_is_a_sentence_and_is_in_no_window(time: Any) -> None:
    for kind in (Tumbling(0.5), Sliding(2.0, 1.0), Sessions(5)):
        before: Slots = sums(kind).put((), 1, 1, -END)[1]
        with pytest.raises(RecomposeError, match=r"^the time .* belongs to no window; it must be a finite number"):
            sums(kind).put(before, time, 1, 1)
    if time != END:
        with pytest.raises(RecomposeError, match="belongs to no window"):
            Clock(every=0.5).seen(Reading(5, 0), time)


def test_settings_and_times_are_numbers_of_any_kind() -> None:
    assert Clock().seen(None, 61.5) == (60, Reading(61.5, 60))
    clock = Clock(behind=Fraction(1, 2), every=np.int64(60))
    assert clock.seen(None, 61) == (60, Reading(Fraction(121, 2), 60))
    windowing = sums(Tumbling(Fraction(60)), lateness=np.int64(5))
    assert windowing.put((), 61, 1, 66)[1] == windowing.put((), np.int64(61), 1, 66)[1] != ()
    with pytest.raises(RecomposeError, match="time = Decimal"):
        with_timer((), Decimal("nan"), "a")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Tumbling(60e9), Sliding(120e9, 60e9)], ids=str)
def test_whole_numbers_of_numpy_are_placed_exactly_beside_a_size_with_a_point(kind: Sliding) -> None:
    """NumPy compares the two as fractions, of which the nearest one is a nanosecond on."""
    edge = 28_333_333 * 60 * 10**9
    for time in (edge - 1, edge, edge + 1):
        assert kind.of(np.int64(time)) == kind.of(time)
        assert Clock(every=60e9).seen(None, np.int64(time)) == Clock(every=60e9).seen(None, time)
    assert kind.of(np.int64(edge - 1))[0].end == edge
