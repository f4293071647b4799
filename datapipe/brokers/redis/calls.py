"""Classify the errors of a Redis server for source and sink: permanent, or worth another attempt."""

from __future__ import annotations

import re
from typing import Any

from compositions.errors import RecomposeError

NEVER = re.compile("WRONGTYPE|NOPERM|DB index is out of range")
"""Errors of a server that a retry would get again. The library drops the error code of those that refuse a user."""


def told(error: Any, what: str) -> Exception:
    """Return the run's exception for an error of the library: RecomposeError if it is permanent, else OSError."""
    from redis import exceptions

    refused = isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError)
    kind = RecomposeError if refused or NEVER.search(str(error)) else OSError
    return kind(f"{what}: {error}")
