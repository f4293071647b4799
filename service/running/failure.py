"""Why a run cannot go on, or gave up what it had accepted; and what it says of the error that ended it."""

from __future__ import annotations

import traceback
from tempfile import NamedTemporaryFile

from compositions.errors import RecomposeError
from runtime.dispatch.event_log import DispatcherError, EventLog
from service.running.building.run import Run

START_FAILURES = 3
"""After so many workers in a row could not start, with none alive, the app has failed."""
NAMED = 5
"""Serial numbers that are named where items were given up."""


def told(error: Exception, app: str) -> str:
    """A sentence where the error is one for users, else the stack. An error of the dispatcher names the file that plays
    it again."""
    if isinstance(error, RecomposeError) and not isinstance(error, DispatcherError):
        return str(error)
    stack = "".join(traceback.format_exception(error)).rstrip()
    return f"{stack}\n{_kept(error.log, app)}" if isinstance(error, DispatcherError) else stack


def _kept(log: EventLog, app: str) -> str:
    """The log has no payloads in it, and still only its owner may read it (mode 0600)."""
    try:
        with NamedTemporaryFile("w", prefix=f"recompose-{app}-", suffix=".events.jsonl", delete=False) as file:
            file.writelines(f"{line}\n" for line in log.lines())
    except OSError as error:
        return f"The events that led to it could not be written: {error}"
    return f"The events that led to it are in {file.name}; runtime.dispatch.replay plays them again."


def check(run: Run) -> None:
    """Raises: RecomposeError when the run cannot go on."""
    broken = run.loop.start_failure
    if broken is not None and broken.consecutive >= START_FAILURES and not run.loop.engine.view().workers:
        raise RecomposeError(f"workers cannot start: {broken.reason}")
    for failed in (run.sink.failed, run.keeper.failed):
        if failed is not None:
            raise RecomposeError(failed)


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
