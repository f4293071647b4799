"""Results that Leonarczyk 2024 reports for these controllers, in per cent: tables 5.1 to 5.5, target 3 ms.

For each controller the best value over its grid, as a mean of ten runs, with its setup. The column of the
increasing pattern in table 5.3 is ``increasing``, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

THRESHOLDS = (0.05, 0.10, 0.15, 0.20)


class Printed(NamedTuple):
    """A value, and the settings with which it was reached."""

    value: float
    values: tuple[tuple[str, float], ...]


Column = Mapping[str, tuple[Printed, ...]]
"""A cell for each controller and threshold."""


def _steps(*cells: tuple[float, float, float]) -> tuple[Printed, ...]:
    """Return value, step and sample, by threshold."""
    return tuple(Printed(value, (("step", step), ("sample", sample))) for value, step, sample in cells)


def _gains(values: tuple[float, ...], *gains: tuple[float, float, float]) -> tuple[Printed, ...]:
    """Return values by threshold, with the gains of each or of all; the samples are 1."""
    each = gains if len(gains) == len(values) else gains * len(values)
    names = ("kp", "ki", "kd", "sample")
    return tuple(
        Printed(value, tuple(zip(names, (*of, 1), strict=True))) for value, of in zip(values, each, strict=True)
    )


BATCHED_HIT: Column = {
    "faf": _steps((37.25, 5, 5), (49.09, 10, 5), (54.72, 20, 10), (65.09, 20, 1)),
    "pbaf": _steps((36.55, 20, 1), (52.79, 15, 5), (59.13, 20, 1), (67.32, 20, 5)),
    "pbaf-wt": _steps((26.25, 5, 1), (37.98, 5, 1), (47.2, 20, 5), (54.14, 20, 5)),
    "mbaf": _steps((27.18, 15, 10), (44.9, 15, 10), (57.73, 15, 5), (74.46, 15, 5)),
    "pmbaf": _steps((57.78, 10, 1), (60.95, 20, 5), (70.62, 20, 5), (77.35, 15, 1)),
    "pid": _gains((51.21, 62.89, 67.69, 72.2), (10, 15, 3)),
}
"""Tables 5.1 and 5.5, by threshold."""

ITEMIZED_HIT: Column = {
    "faf": _steps((30.05, 5, 1), (45.59, 10, 1), (54.44, 10, 1), (62.62, 10, 1)),
    "pbaf": _steps((34.19, 10, 1), (47.68, 20, 1), (54.25, 20, 1), (59.05, 20, 1)),
    "pbaf-wt": _steps((30.55, 5, 1), (44.39, 5, 1), (54.8, 10, 1), (64.28, 15, 1)),
    "mbaf": _steps((31.95, 5, 1), (45.38, 5, 1), (55.65, 10, 1), (62.66, 10, 1)),
    "pmbaf": _steps((37.06, 10, 1), (47.37, 15, 1), (55.42, 20, 1), (63.17, 20, 1)),
    "pid": _gains((38.5, 52.07, 59.85, 66.32), (10, 15, 3), (10, 15, 3), (10, 15, 3), (20, 15, 3)),
}
"""Tables 5.1 and 5.5, by threshold."""

HIT_DEVIATION: Mapping[str, tuple[float, float]] = {
    "faf": (14.66, 2.78),
    "pbaf": (11.65, 3.45),
    "pbaf-wt": (8.0, 1.8),
    "mbaf": (4.5, 2.54),
    "pmbaf": (12.73, 1.39),
}
"""Table 5.2: standard deviation of the best batched and itemized hit at 5 % over ten runs."""

BY_PATTERN: Mapping[str, Mapping[str, float]] = {
    "faf": {"increasing": 60.46, "spike": 28.09, "decreasing": 47.97, "binary": 14.58, "wave": 18.36},
    "pbaf": {"increasing": 55.32, "spike": 16.53, "decreasing": 41.82, "binary": 16.84, "wave": 20.76},
    "pbaf-wt": {"increasing": 54.37, "spike": 20.82, "decreasing": 48.69, "binary": 16.03, "wave": 21.94},
    "mbaf": {"increasing": 57.99, "spike": 19.32, "decreasing": 51.66, "binary": 28.73, "wave": 22.76},
    "pmbaf": {"increasing": 53.74, "spike": 9.83, "decreasing": 46.12, "binary": 29.55, "wave": 23.26},
}
"""Table 5.3: itemized hits, means over all combinations of threshold, step and sample."""

MAD_DISTANCE: Column = {
    "faf": _steps((30.79, 5, 1), (30.37, 15, 1), (27.81, 5, 1), (22.86, 10, 1)),
    "pbaf": _steps((24.28, 20, 1), (29.47, 20, 1), (24.92, 15, 1), (26.34, 20, 1)),
    "pbaf-wt": _steps((29.87, 10, 1)) * 4,
    "mbaf": _steps((25.68, 10, 1), (26.85, 15, 5), (24.94, 15, 1), (22.62, 15, 5)),
    "pmbaf": _steps((15.3, 10, 1), (20.86, 5, 1), (19.24, 5, 1), (17.98, 15, 1)),
    "pid": _gains((17.03,) * 4, (10, 15, 3)),
}
"""Tables 5.4 and 5.5, by threshold; ``pbaf-wt`` and ``pid`` do not look at it."""

SD_DISTANCE: Column = {
    "faf": _steps((52.89, 5, 1), (49.06, 10, 1), (45.45, 1, 1), (39.47, 10, 1)),
    "pbaf": _steps((39.37, 1, 1), (38.68, 1, 1), (40.16, 1, 1), (40.78, 1, 1)),
    "pbaf-wt": _steps((39.19, 1, 1)) * 4,
    "mbaf": _steps((41.16, 1, 1), (41.96, 1, 1), (38.4, 1, 1), (37.52, 1, 1)),
    "pmbaf": _steps((37.98, 1, 1), (39.01, 1, 1), (40.32, 1, 1), (38.27, 5, 1)),
    "pid": _gains((36.86,) * 4, (10, 5, 5)),
}
"""Tables 5.4 and 5.5, by threshold."""
