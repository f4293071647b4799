"""The base class of all errors that a user can cause and read, and helpers for their texts."""

from collections.abc import Sequence
from dataclasses import dataclass


class RecomposeError(Exception):
    """Base class of all errors whose text is a sentence for the user."""

    faults: "tuple[Fault, ...]" = ()
    """All faults found, if the error is about a document or a request body."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at one place of a document; ``path`` as in ``compositions[2].groups[0].stages[1]``."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class NotNow(RecomposeError, OSError):  # noqa: N818 - says what it means
    """A request cannot be fulfilled now, for a reason outside the program such as a full disk; a later retry may."""


class CompositionError(RecomposeError):
    """A compositions document or a notation was refused; ``faults`` has every fault found."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def shown(value: object) -> str:
    """Return the value as a fault quotes it: shortened, and safe for numbers that are too long to be printed."""
    try:
        text = repr(value)
    except ValueError:
        return "a number with too many digits"
    return text if len(text) <= 60 else f"{text[:60]}…"


def sub_path(path: str, key: object) -> str:
    """Return the path of ``key`` in the mapping at ``path``; a key that is no plain word is quoted."""
    word = key if isinstance(key, str) and key.isidentifier() and len(key) <= 60 else shown(key)
    return f"{path}.{word}" if path else word
