"""What a run says of the error that ended it."""

from __future__ import annotations

import traceback
from tempfile import NamedTemporaryFile

from compositions.errors import RecomposeError
from runtime.dispatch.event_log import DispatcherError, EventLog


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
