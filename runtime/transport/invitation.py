"""What a worker is given so that it can connect to its pool's hub and prove that it is the one that was invited."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from runtime.dispatch.events import WorkerId


@dataclass(frozen=True, slots=True)
class Network:
    """How to reach a hub from another host."""

    host: str
    lifeline_port: int
    items_endpoint: str
    server_key: bytes


@dataclass(frozen=True, slots=True)
class Invitation:
    """All that a worker needs to connect; picklable. At least one of ``unix_path`` and ``network`` is given."""

    worker: WorkerId
    secret: bytes
    unix_path: str | None
    network: Network | None

    def proof(self, challenge: bytes) -> bytes:
        """Shows that the invited worker answers this challenge."""
        return hmac.digest(self.secret, challenge + self.worker.encode(), "sha256")

    @property
    def identity(self) -> bytes:
        """The worker's ZeroMQ routing id; nobody without an invitation can name it. (A zero byte first is reserved.)"""
        return b"w" + self.proof(b"routing id")
