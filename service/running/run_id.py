"""The name of one run: of the serial numbers that a runner gives from 0 on."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime


def new_run() -> str:
    """Sorts by the second of its making (UTC), and is unique."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
