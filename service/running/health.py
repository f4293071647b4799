"""Whether a run can go on, and whether it gave up what it had accepted."""

from __future__ import annotations

from compositions.errors import RecomposeError
from service.running.building.run import Run

START_FAILURES = 3
"""After so many workers in a row could not start, with none alive, the app has failed."""
NAMED = 5
"""Serial numbers that are named where items were given up."""


def check(run: Run) -> None:
    """Raises: RecomposeError when the run cannot go on."""
    broken = run.loop.start_failure
    if broken is not None and broken.consecutive >= START_FAILURES and not run.loop.engine.view().workers:
        raise RecomposeError(f"workers cannot start: {broken.reason}")
    if run.sink.failed is not None:
        raise RecomposeError(run.sink.failed)


def check_drained(run: Run) -> None:
    """Raises: RecomposeError when items were accepted and are not delivered."""
    if run.undelivered:
        raise RecomposeError(_given_up(run.undelivered))


def _given_up(serials: range) -> str:
    shown = ", ".join(str(serial) for serial in serials[:NAMED])
    more = f" and {len(serials) - NAMED} more" if len(serials) > NAMED else ""
    return (
        f"the time to drain was over with {len(serials)} accepted items not delivered, serial numbers {shown}{more}; "
        "give them again, or give the stop more time"
    )
