"""Rates and latencies over windows of time.

A rate is estimated from the time between events, not from a count divided by a length: three items a second in a window
of two are five or seven items, an error of 17 %, while the gaps between them are exact.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from profiler.snapshot import RateWindow
from profiler.stats import Samples, product

MIN_GAPS = 2
"""Gaps between events below which no rate is reported: one gap says nothing about its own spread."""

SILENCE_GAPS = 4.0
"""A stream is taken as stopped after this many of its mean gaps (and a whole window): e⁻⁴ = 2 % if it is Poisson."""


def rate_per_s(
    events: Samples, now_s: float, *, window_s: float, since_s: float, silence_s: float | None = None
) -> float | None:
    """Items per second over the last ``window_s``; events before ``since_s`` do not count.

    Estimator: the number of items that came after an anchor divided by the time from the anchor to the newest event,
    where an event is an item or a bundle of them. The anchor is the last event before the window (the first after
    ``since_s``, if that is later); for a slow stream it lies further back, until two gaps are known. What the silence
    now exceeds the longest of those gaps is added to that time, so the rate falls while nothing comes. Events with the
    time stamp of the anchor (a reorder buffer letting go) belong to the anchor.

    ``None``: fewer than two gaps known. 0.0: silent for longer than the window and four mean gaps, or for
    ``silence_s`` (default: the window) with fewer than two gaps known.
    """
    first, end = events.first_at_or_after(since_s), events.first_after(now_s)
    anchor = _anchor(events, now_s - window_s, first, end)
    after = events.first_after(events.at(anchor)) if anchor < end else end
    newest_s = events.at(end - 1) if end > first else since_s
    silent_s = now_s - newest_s
    if end - after < MIN_GAPS:
        return 0.0 if silent_s >= (window_s if silence_s is None else silence_s) else None
    span_s = newest_s - events.at(anchor)
    if silent_s > max(window_s, SILENCE_GAPS * span_s / (end - after)):
        return 0.0
    longest_gap_s = float(np.diff(events.times(anchor)[: end - anchor]).max())
    return events.items(after, end) / (span_s + max(0.0, silent_s - longest_gap_s))


def _anchor(events: Samples, start_s: float, first: int, end: int) -> int:
    """Index of the event that the count starts after: no earlier than ``first``; ``end`` or more when there is none."""
    anchor = max(events.first_after(start_s) - 1, first)
    anchor = min(anchor, max(end - 1, first))
    while first < anchor < end and end - events.first_after(events.at(anchor)) < MIN_GAPS:
        anchor = max(events.first_at_or_after(events.at(anchor)) - 1, first)
    return anchor


def mean_of_steps(steps: Samples, start_s: float, end_s: float) -> float | None:
    """Time-weighted mean of ``x`` over ``[start_s, end_s]``, each row holding until the next one.

    Time before the first row is left out. ``None`` when no row is known by ``end_s``.
    """
    last = steps.first_after(end_s)
    if not last:
        return None
    first = max(steps.first_after(start_s) - 1, 0)
    values = steps.xs(first)[: last - first]
    edges = np.append(np.maximum(steps.times(first)[: last - first], start_s), end_s)
    lengths = np.diff(edges)
    total = lengths.sum()
    return product(lengths, values) / float(total) if total > 0 else float(values[-1])


def offered_windows(steps: Samples, edges_s: Sequence[float]) -> tuple[RateWindow, ...]:
    """The offered rate between each two neighbours of ``edges_s``; empty when none was set at the first edge."""
    if not steps.first_after(edges_s[0]):
        return ()
    means = [(mean_of_steps(steps, start_s, end_s), end_s - start_s) for start_s, end_s in pairwise(edges_s)]
    return tuple(RateWindow(mean, length_s) for mean, length_s in means if mean is not None)


def counted_window(events: Samples, start_s: float, end_s: float) -> RateWindow:
    """The arrivals in ``[start_s, end_s)`` as a rate with the scatter of a count."""
    count = events.items(events.first_at_or_after(start_s), events.first_at_or_after(end_s))
    return RateWindow(count / (end_s - start_s), end_s - start_s, counted=True)


def input_rate_change(
    reference_per_s: float | None, windows: tuple[RateWindow, ...], *, threshold: float = 0.2, sigmas: float = 2.5
) -> float | None:
    """The new input rate (of the newest window) if it changed since the last decision, else ``None``.

    Changed: each of the consecutive ``windows`` (two of one second: a step shows within two seconds) contrasts with
    ``reference_per_s``, the mean at the last decision, by more than ``threshold``, all in the same direction. Windows
    of counted arrivals must also be further off than ``sigmas`` standard deviations of a Poisson count: ten random
    arrivals a second scatter by a third of themselves, and two windows at 2.5 sigma leave one false alarm in hours. A
    change of a slow random stream that this misses shows in the ten-second window.
    """
    if reference_per_s is None or len(windows) < 2:
        return None
    shifts = [_significant_shift(reference_per_s, window, threshold, sigmas) for window in windows]
    same_way = all(shift > 0 for shift in shifts) or all(shift < 0 for shift in shifts)
    return windows[-1].rate_per_s if same_way else None


def _significant_shift(reference_per_s: float, window: RateWindow, threshold: float, sigmas: float) -> float:
    """Window less reference in items/s; 0 where that is not significant."""
    shift = window.rate_per_s - reference_per_s
    noise_per_s = sigmas * (reference_per_s / window.length_s) ** 0.5 if window.counted else 0.0
    return shift if abs(shift) > max(threshold * reference_per_s, noise_per_s) else 0.0
