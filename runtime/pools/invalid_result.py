"""Explain an invalid result or state of a stage in a sentence, which is the first line of the message as well as the
last, since some readers are shown one line only."""

from __future__ import annotations

import traceback

from compositions.errors import RecomposeError

STATE_MUST = "a state must be plain data, and what else the stage needs is made in setup"
VALUE_MUST = "what stages hand on must be data"


def unfit(what: str, must: str) -> str:
    """Return the message that ``what`` cannot be pickled, with the traceback of the exception being handled."""
    text = traceback.format_exc().rstrip()
    return f"{what} cannot be pickled\n{text}\n{what} cannot be pickled ({text.splitlines()[-1]}); {must}"


def no_pair(error: BaseException, stage: object, pair: str) -> BaseException:
    """Return what was raised where the method of a stage was called and what it returned was taken apart; instead of
    Python's words for the latter, a sentence with the ``pair`` that it must return."""
    at = error.__traceback__
    if (
        not isinstance(error, TypeError | ValueError)
        or at is None
        or at.tb_next is not None
        or "unpack" not in str(error)
    ):
        return error
    name = getattr(stage, "__name__", "a stage that keeps a state")
    return RecomposeError(f"{name} must return {pair}; what it returned is no pair ({error})")
