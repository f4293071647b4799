"""Whether the service is there."""

from __future__ import annotations

from typing import Literal

from service.bodies.base import Answer


class Health(Answer):
    status: Literal["alive", "ready"]
