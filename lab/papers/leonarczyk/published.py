"""Results that Leonarczyk 2024 reports for these controllers, in per cent: tables 5.1 to 5.5, target 3 ms.

The best of each controller over its grid of steps and samples (``pid``: gains and samples), averages of ten runs. The
column of the increasing pattern in table 5.3 is ``increasing``, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping

THRESHOLDS = (0.05, 0.10, 0.15, 0.20)

BATCHED_HIT: Mapping[str, tuple[float, ...]] = {
    "faf": (37.25, 49.09, 54.72, 65.09),
    "pbaf": (36.55, 52.79, 59.13, 67.32),
    "pbaf-wt": (26.25, 37.98, 47.2, 54.14),
    "mbaf": (27.18, 44.9, 57.73, 74.46),
    "pmbaf": (57.78, 60.95, 70.62, 77.35),
    "pid": (51.21, 62.89, 67.69, 72.2),
}
"""Tables 5.1 and 5.5, by threshold."""

ITEMIZED_HIT: Mapping[str, tuple[float, ...]] = {
    "faf": (30.05, 45.59, 54.44, 62.62),
    "pbaf": (34.19, 47.68, 54.25, 59.05),
    "pbaf-wt": (30.55, 44.39, 54.8, 64.28),
    "mbaf": (31.95, 45.38, 55.65, 62.66),
    "pmbaf": (37.06, 47.37, 55.42, 63.17),
    "pid": (38.5, 52.07, 59.85, 66.32),
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

MAD_DISTANCE: Mapping[str, tuple[float, ...]] = {
    "faf": (30.79, 30.37, 27.81, 22.86),
    "pbaf": (24.28, 29.47, 24.92, 26.34),
    "pbaf-wt": (29.87, 29.87, 29.87, 29.87),
    "mbaf": (25.68, 26.85, 24.94, 22.62),
    "pmbaf": (15.3, 20.86, 19.24, 17.98),
    "pid": (17.03, 17.03, 17.03, 17.03),
}
"""Tables 5.4 and 5.5, by threshold; ``pbaf-wt`` and ``pid`` do not look at it."""

SD_DISTANCE: Mapping[str, tuple[float, ...]] = {
    "faf": (52.89, 49.06, 45.45, 39.47),
    "pbaf": (39.37, 38.68, 40.16, 40.78),
    "pbaf-wt": (39.19, 39.19, 39.19, 39.19),
    "mbaf": (41.16, 41.96, 38.4, 37.52),
    "pmbaf": (37.98, 39.01, 40.32, 38.27),
    "pid": (36.86, 36.86, 36.86, 36.86),
}
"""Tables 5.4 and 5.5, by threshold."""
