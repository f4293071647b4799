"""The same work for all contenders: of each number the sum of all so far with the same key.

Imports nothing but the standard library: peers run in interpreters of their own.
"""

from __future__ import annotations

KEYS = 1_000


def key_of(value: int) -> int:
    return value % KEYS


def last_sums(items: int) -> dict[int, int]:
    """What the sums of all keys come to after so many numbers, from 0."""
    return {key: sum(range(key, items, KEYS)) for key in range(min(KEYS, items))}


def sum_at(value: int) -> int:
    """The running sum that belongs to ``value``: of ``key, key + KEYS …`` up to it."""
    terms = value // KEYS + 1
    return terms * (key_of(value) + value) // 2


def verify(sums: dict[int, int], items: int, who: str) -> None:
    """Raises: ValueError when the last sums are other than those of a plain loop."""
    if sums != last_sums(items):
        wrong = sorted(key for key in range(KEYS) if sums.get(key) != last_sums(items).get(key))
        raise ValueError(f"{who}: other sums than a plain loop for {len(wrong)} keys, the first is {wrong[:1]}")
