"""What a stage gave, or left as its state, and cannot travel: told in a sentence, which is the last line as well as the
first, for who is shown one line only."""

from __future__ import annotations

import traceback

STATE_MUST = "a state must be plain data, and what else the stage needs is made in setup"
VALUE_MUST = "what stages hand on must be data"


def unfit(what: str, must: str) -> str:
    """Of the exception that is being handled, with its traceback: ``what`` cannot be pickled."""
    text = traceback.format_exc().rstrip()
    return f"{what} cannot be pickled\n{text}\n{what} cannot be pickled ({text.splitlines()[-1]}); {must}"
