"""Rates and latencies over windows of time.

A rate is estimated from the time between events, not from a count divided by a length. At three items a second, a
window of two seconds counts five or seven items, an error of 17 %, while the gaps between them are exact.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from profiler.snapshot import RateWindow
from profiler.stats import Samples, product

MIN_GAPS = 2
"""Minimum number of gaps between events for a rate: one gap shows nothing of its scatter."""

SILENCE_GAPS = 4.0
"""Number of mean gaps (and at least a whole window) after which a stream counts as stopped: e⁻⁴ = 2 % if Poisson."""


def rate_per_s(
    events: Samples, now_s: float, *, window_s: float, since_s: float, silence_s: float | None = None
) -> float | None:
    """Return the rate in items/s over the last ``window_s``; events before ``since_s`` do not count.

    Estimator: the number of items that came after an anchor divided by the time from the anchor to the newest event,
    where an event is an item or a bundle of them. The anchor is the last event before the window (the first after
    ``since_s``, if that is later); for a slow stream it lies further back, until two gaps are known. If the present
    silence exceeds the longest of those gaps, the excess is added to that time, so the rate falls while nothing comes.
    Events with the anchor's time stamp (released together by a reorder buffer) belong to the anchor.

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
    """Return the index of the event after which items are counted: at least ``first``; ``end`` or more if none."""
    anchor = max(events.first_after(start_s) - 1, first)
    anchor = min(anchor, max(end - 1, first))
    while first < anchor < end and end - events.first_after(events.at(anchor)) < MIN_GAPS:
        anchor = max(events.first_at_or_after(events.at(anchor)) - 1, first)
    return anchor


def mean_of_steps(steps: Samples, start_s: float, end_s: float) -> float | None:
    """Return the time-weighted mean of ``x`` over ``[start_s, end_s]``; each row holds until the next one.

    Time before the first row is left out. ``None`` if there is no row by ``end_s``.
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
    """Return the mean set rate between each two neighbours of ``edges_s``; empty if none was set at the first edge."""
    if not steps.first_after(edges_s[0]):
        return ()
    means = [(mean_of_steps(steps, start_s, end_s), end_s - start_s) for start_s, end_s in pairwise(edges_s)]
    return tuple(RateWindow(mean, length_s) for mean, length_s in means if mean is not None)


def counted_window(events: Samples, start_s: float, end_s: float) -> RateWindow:
    """Return the rate of arrivals counted in ``[start_s, end_s)``."""
    count = events.items(events.first_at_or_after(start_s), events.first_at_or_after(end_s))
    return RateWindow(count / (end_s - start_s), end_s - start_s, counted=True)


def input_rate_change(
    reference_per_s: float | None, windows: tuple[RateWindow, ...], *, threshold: float = 0.2, sigmas: float = 2.5
) -> float | None:
    """Return the new input rate (of the newest window) if it changed since the last decision, else ``None``.

    It changed if all of the consecutive ``windows`` (two of one second) differ from ``reference_per_s``, the rate at
    the last decision, by more than ``threshold``, in the same direction. Windows of counted arrivals must also differ
    by more than ``sigmas`` standard deviations of a Poisson count: ten random arrivals a second have a standard
    deviation of a third, and two windows at 2.5 sigma cause one false alarm in hours. Changes of a slow random stream
    that are missed here show in the ten-second window.
    """
    if reference_per_s is None or len(windows) < 2:
        return None
    shifts = [_significant_shift(reference_per_s, window, threshold, sigmas) for window in windows]
    same_way = all(shift > 0 for shift in shifts) or all(shift < 0 for shift in shifts)
    return windows[-1].rate_per_s if same_way else None


def _significant_shift(reference_per_s: float, window: RateWindow, threshold: float, sigmas: float) -> float:
    """Return the difference of window and reference in items/s; 0 if it is not significant."""
    shift = window.rate_per_s - reference_per_s
    noise_per_s = sigmas * (reference_per_s / window.length_s) ** 0.5 if window.counted else 0.0
    return shift if abs(shift) > max(threshold * reference_per_s, noise_per_s) else 0.0
