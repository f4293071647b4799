"""Classes of input: amounts by name, after SPBench (Garcia et al. 2023, section 5.1: ``-input huge``)."""

from __future__ import annotations

from collections.abc import Mapping

from compositions.errors import RecomposeError

Amount = int | str
"""Items, or the name of a class."""


def parse_amount(text: str) -> Amount:
    """Raises: ValueError for a number that is no amount of items."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    if not digits.isdecimal():
        return text
    if int(text) < 1:
        raise ValueError(f"{text} is no number of items; give 1 or more, or a class of input such as small")
    return int(text)


def items_of(app: str, classes: Mapping[str, int], asked: Amount) -> int:
    """Return how many items are asked for of an ``app`` that has these ``classes``.

    Raises: RecomposeError when there is none of that name, with those that there are.
    """
    if isinstance(asked, int):
        return asked
    if asked in classes:
        return classes[asked]
    known = f"it has {', '.join(classes)}" if classes else "it has none"
    raise RecomposeError(f"app {app!r} has no class of input {asked!r}; {known}; a number of items does as well")
