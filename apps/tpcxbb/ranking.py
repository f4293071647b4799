"""Counts in tumbling windows of event time, and their tops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Key = tuple[int, ...]
Counts = dict[int, dict[Key, int]]
"""By begin of the window."""


def counted(counts: Counts, start: int, key: Key) -> int:
    """One more; returns how many there are now."""
    window = counts.setdefault(start, {})
    window[key] = now = window.get(key, 0) + 1
    return now


def over(counts: Counts, window_s: int, watermark: int) -> Iterator[tuple[int, dict[Key, int]]]:
    """Takes out the windows that are over, oldest first."""
    for start in sorted(start for start in counts if start + window_s <= watermark):
        yield start, counts.pop(start)


def top(counts: dict[Key, int], most: int) -> list[list[int]]:
    """The most frequent, each with its count; equal ones by key."""
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [[*key, count] for key, count in ranked[:most]]


def tops(counts: Counts, window_s: int, watermark: int, most: int) -> Iterator[dict[str, Any]]:
    """What is told of each window that is over, if there is anything."""
    for start, window in over(counts, window_s, watermark):
        if window:
            yield {"from_s": start, "until_s": start + window_s, "top": top(window, most)}
