"""Why the control plane says no: one class for each kind of answer, so that REST and command line agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compositions.errors import Fault, RecomposeError


class NotFoundError(RecomposeError):
    """What was named does not exist."""


class ConflictError(RecomposeError):
    """The request is sound, but not in the present state of the app."""


class BadValueError(RecomposeError):
    """A value that only the running service could judge. ``faults`` carry paths into the request."""

    def __init__(self, message: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class UnavailableError(RecomposeError):
    """The runner cannot answer now; the same request may succeed later."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotStoredError(UnavailableError):
    """The state file cannot be written now, so nothing was changed."""


class DiskFullError(NotStoredError):
    """There is no room for it."""


class ResultsGoneError(RecomposeError):
    """What comes next for a reader is not kept: of another run, or too old. ``first`` and ``last`` serial numbers are
    what is kept of ``run``; None where there is nothing."""

    def __init__(self, message: str, run: str | None = None, first: int | None = None, last: int | None = None) -> None:
        super().__init__(message)
        self.run, self.first, self.last = run, first, last


def listed(names: Iterable[str]) -> str:
    """Names for a sentence: ``ferret, synthetic``, or ``none``; long lists are cut."""
    known = sorted(names)
    shown = ", ".join(known[:20])
    return (shown + f" and {len(known) - 20} more" if len(known) > 20 else shown) or "none"
