"""Timers by event time: 100 random streams, with late items, against DuckDB."""

from random import Random
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

from apps.event_time import END, Clock, Timers, due, with_timer, without_timer

TICK = 10
KEYS = 6
ENDS = 1 << 40
"""Stands for the watermark after the last event, and for its serial number."""


class Event(NamedTuple):
    serial: int
    key: int
    time: int
    name: str
    """Of a timer: it is set ``after`` so long, or taken back if that is None."""
    after: int | None


class Stream(NamedTuple):
    number: int
    events: list[Event]
    behind: int


class Fired(NamedTuple):
    heard: int
    """Serial number of the event that told the time."""
    key: int
    at: int
    name: str


def drawn(number: int) -> Stream:
    """What comes late may set a timer whose time has come already."""
    chance, at = Random(number), 0
    events = []
    for serial in range(120):
        at += chance.choice((0, 0, 1, 2, 3, 8, 40))
        time = at - chance.randint(0, chance.choice((0, 0, 0, 5, 20, 60)))
        after = chance.choice((None, chance.randint(0, 5), chance.randint(0, 60), chance.randint(0, 60)))
        events.append(Event(serial, chance.randrange(KEYS), time, chance.choice("abc"), after))
    return Stream(number, events, chance.choice((0, 3, 10)))


STREAMS = [drawn(number) for number in range(100)]
FIRED_SQL = f"""
with marked as (select *, max(time) over (partition by stream order by serial) - behind as mark from events),
told as (select stream, serial, floor(mark / {TICK})::bigint * {TICK} as tick from marked
         qualify tick > coalesce(lag(tick) over (partition by stream order by serial), tick - 1)),
-- when a key hears of the time: by a tick, then by its own event, and at the end
hearings as (select stream, key, 2 * serial + 1 as pos, mark from marked
             union all select distinct stream, key, {2 * ENDS}, {ENDS} from marked
             union all select stream, key, 2 * serial, tick from told
                       join (select distinct stream, key from marked) using (stream) where {{ticks}}),
-- a timer is there until the next event of its key and name: what is due then is due before it is moved or taken back
timers as (select stream, key, name, time + after as due, after, 2 * serial + 1 as pos,
                  coalesce(lead(2 * serial + 1) over (partition by stream, key, name order by serial),
                           {2 * ENDS}) as gone
           from marked)
select stream, min(hearings.pos) // 2 as heard, key, due, name
from timers join hearings using (stream, key)
where after is not null and mark >= due and hearings.pos > timers.pos
group by stream, key, name, due, timers.pos, gone having min(hearings.pos) <= gone order by all
"""


def found(*, ticks: bool) -> list[tuple[Any, ...]]:
    """By DuckDB."""
    rows = [(stream.number, stream.behind, *event) for stream in STREAMS for event in stream.events]
    names = ("stream", "behind", *Event._fields)
    with duckdb.connect() as database:
        database.register("events", pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))))
        return database.execute(FIRED_SQL.format(ticks=str(ticks))).fetchall()


def heard(states: dict[int, Timers], key: int, watermark: float, serial: int) -> list[Fired]:
    fired, states[key] = due(states.get(key, ()), watermark)
    return [Fired(serial, key, int(at), name) for at, name in fired]


def applied(timers: Timers, event: Event) -> Timers:
    if event.after is None:
        return without_timer(timers, event.name)
    return with_timer(timers, event.time + event.after, event.name)


def told(stream: Stream, *, ticks: bool) -> list[Fired]:
    """In order; without ``ticks`` a key hears of its own events only, until the end."""
    clock, reading, states = Clock(stream.behind, every=TICK), None, dict[int, Timers]()
    out: list[Fired] = []
    for event in stream.events:
        tick, reading = clock.seen(reading, event.time)
        if ticks and tick is not None:
            out += [each for key in range(KEYS) for each in heard(states, key, tick, event.serial)]
        out += heard(states, event.key, reading.watermark, event.serial)
        states[event.key] = applied(states.get(event.key, ()), event)
    out += [each for key in range(KEYS) for each in heard(states, key, END, ENDS)]
    assert not any(states.values())
    return out


@pytest.mark.parametrize("ticks", [True, False])
def test_timers_of_random_streams_fire_when_and_in_the_order_that_duckdb_finds(ticks: bool) -> None:
    rows = [(stream.number, *each) for stream in STREAMS for each in told(stream, ticks=ticks)]
    set_ = sum(event.after is not None for stream in STREAMS for event in stream.events)
    assert 1000 < len(rows) < 0.9 * set_, "many fire, many are moved or taken back"
    by_hearing = sorted(rows, key=lambda row: row[:3])  # stable: as they fired where a key heard of the time
    assert by_hearing == found(ticks=ticks)
