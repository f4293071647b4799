"""What a worker is given so that it can connect to its pool's hub and prove that it is the one that was invited.

Every invitation has a secret of its own; all that is shown of it is derived from it, each under a label that nothing
else uses. So no worker can pass for another, and no answer to a challenge can be a routing id or a key.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

import zmq
from zmq.utils import z85

from runtime.dispatch.events import WorkerId

SECRET_BYTES = CHALLENGE_BYTES = 32
_PROOF, _ROUTING_ID, _CURVE_KEY = b"recompose proof", b"recompose routing id", b"recompose curve key"


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
    secret: bytes = field(repr=False)
    unix_path: str | None
    network: Network | None

    def proof(self, challenge: bytes) -> bytes:
        """Shows that the invited worker answers this challenge."""
        return self._derived(_PROOF, challenge + self.worker.encode())

    @property
    def identity(self) -> bytes:
        """The worker's ZeroMQ routing id; nobody else can name it. (A zero byte first is reserved.)"""
        return b"w" + self._derived(_ROUTING_ID)

    @property
    def curve_secret(self) -> bytes:
        """The worker's secret CURVE key, as ZeroMQ writes it."""
        encoded: bytes = z85.encode(self._derived(_CURVE_KEY))
        return encoded

    @property
    def curve_public(self) -> bytes:
        """The key by which the hub knows the worker's ZeroMQ connection."""
        return zmq.curve_public(self.curve_secret)

    def _derived(self, label: bytes, data: bytes = b"") -> bytes:
        return hmac.digest(self.secret, label + b"\0" + data, "sha256")
