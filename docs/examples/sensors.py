"""Readings of sensors to one-minute means by sensor, with late readings: ``python sensors.py``."""

import random

from recompose import END, Clock, KeyedWindows, Late, Outputs, Stage, StageKind, Tumbling, Windowing, pipeline, run

PARTS = 4
CLOCK = Clock(behind=10, every=60)
"""Readings may be 10 s out of order."""
MEANS = KeyedWindows(
    Windowing(Tumbling(60), lambda total, celsius: ((total or (0, 0))[0] + celsius, (total or (0, 0))[1] + 1))
)


def readings():
    """Yield (sensor, time in seconds, °C) in the order of arrival, and None at the end."""
    noise = random.Random(7)
    made = [(sensor, time, 20 + 5 * sensor + noise.random()) for time in range(0, 180, 5) for sensor in range(3)]
    arrivals = sorted(made, key=lambda reading: reading[1] + noise.uniform(0, 9))
    yield from arrivals
    yield 0, 15, 99.0  # two minutes late: its window is closed
    yield None


def clock(reading, seen):
    """Add how far the stream has come; each time it passes a minute, a tick goes to every part."""
    sensor, time, celsius = reading or (None, END, None)
    tick, seen = CLOCK.seen(seen, time)
    values = [(part, tick) for part in range(PARTS)] if tick is not None else []
    if sensor is not None:
        values.append((sensor % PARTS, seen.watermark, sensor, time, celsius))
    return Outputs(values), seen


def part(value):
    return value[0]


def mean(value, windows):
    """Emit the windows that are complete; the state has those of this part that are not."""
    windows, (_, watermark, *reading) = windows or {}, value
    panes = MEANS.put(windows, *reading, watermark) if reading else MEANS.advance(windows, watermark)
    return Outputs(map(told, panes)), windows


def told(pane):
    sensor, pane = pane
    if isinstance(pane, Late):
        return f"sensor {sensor}: {pane.value:.1f} °C of second {pane.time} came too late"
    total, count = pane.value
    return f"sensor {sensor}: {total / count:.1f} °C from second {pane.window.start}, {count} readings"


app = pipeline((Stage("clock", StageKind.STATEFUL), clock), (Stage("mean", StageKind.PARTITIONED), mean, part))

if __name__ == "__main__":
    for result in run(app, source=readings(), pool="local"):
        print(result.value)
