"""Plain data of a document read by type: what does not fit is noted with its path, and reading goes on."""

from __future__ import annotations

from collections.abc import Sequence

from compositions.errors import CompositionError, Fault, shown, sub_path
from compositions.rules import count_fault

MAX_FAULTS = 1_000
"""Faults beyond are counted only: a megabyte of nonsense shall not answer with a hundred."""


class Fields:
    """Typed access to parsed YAML; ``faults`` collects what was wrong, in reading order."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._more = 0

    def mapping(self, value: object, path: str, keys: Sequence[str], needed: Sequence[str] = ()) -> dict[str, object]:
        """The known ``keys`` of a mapping; unknown ones and missing ``needed`` ones are faults."""
        if not isinstance(value, dict):
            self.fault(path, f"must be a mapping with {', '.join(keys)}, not {kind(value)}")
            return {}
        for key in value:
            if key not in keys:
                self.fault(sub_path(path, key), f"unknown key; accepted are {', '.join(keys)}")
        for key in needed:
            if key not in value:
                self.fault(sub_path(path, key), "is missing")
        return {key: value[key] for key in keys if key in value}

    def list(self, value: object, path: str) -> list[object]:
        if isinstance(value, list):
            return value
        self.fault(path, f"must be a list, not {kind(value)}")
        return []

    def count(self, value: object, path: str) -> int:
        """A number of workers; 1 stands in for one that is none."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.fault(path, f"must be a whole number of at least 1, not {kind(value)}")
        elif (problem := count_fault(path.rsplit(".")[-1], value)) is not None:
            self.fault(path, problem)
        else:
            return value
        return 1

    def fault(self, path: str, message: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(path, message))
        else:
            self._more += 1

    def raise_faults(self) -> None:
        """Raises: CompositionError with all faults noted, if there are any."""
        more = [Fault("", f"and {self._more:,} more faults")] if self._more else []
        if self.faults:
            raise CompositionError(self.faults + more)


def kind(value: object) -> str:
    """What a value is in the words of a document's author, with the value itself where that is short."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"the text {shown(value)}" if isinstance(value, str) else shown(value)
