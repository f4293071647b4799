"""The credentials with which a worker connects to its hub, and the list of the invited workers at the hub.

Every invitation has a secret of its own. All that is shown of it is derived from it, each value under a label that
nothing else uses. So no worker can pass for another, and no answer to a challenge can be a routing id or a key.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

import zmq
from zmq.utils import z85

from runtime.dispatch.events import WorkerId

SECRET_BYTES = CHALLENGE_BYTES = 32
_PROOF, _ROUTING_ID, _CURVE_KEY = b"recompose proof", b"recompose routing id", b"recompose curve key"


@dataclass(frozen=True, slots=True)
class Network:
    """The address and keys that another host needs to reach a hub."""

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
        """The worker's ZeroMQ routing id; nobody else can name it. A zero byte first is reserved."""
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


class Guests:
    """The invitations that are still good."""

    def __init__(self) -> None:
        self._invitations: dict[WorkerId, Invitation] = {}
        self._routes: dict[bytes, WorkerId] = {}
        self._keys: set[bytes] = set()

    def invite(self, worker: WorkerId, unix_path: str | None, network: Network | None) -> Invitation:
        invitation = Invitation(worker, secrets.token_bytes(SECRET_BYTES), unix_path, network)
        self._invitations[worker] = invitation
        if network is not None:
            self._routes[invitation.identity] = worker
            self._keys.add(z85.decode(invitation.curve_public))
        return invitation

    def expel(self, worker: WorkerId) -> None:
        """Takes an invitation back."""
        invitation = self._invitations.pop(worker, None)
        if invitation is not None and invitation.network is not None:
            del self._routes[invitation.identity]
            self._keys.discard(z85.decode(invitation.curve_public))

    def admit(self, worker: WorkerId, challenge: bytes, proof: bytes) -> Invitation:
        """Raises: OSError for a worker that was not invited, or a proof that is not its own."""
        invitation = self._invitations.get(worker)
        if invitation is None:
            raise OSError(f"{worker!r} is not expected")
        if not hmac.compare_digest(invitation.proof(challenge), proof):
            raise OSError(f"{worker!r} does not have its invitation")
        return invitation

    def by_route(self, identity: bytes) -> WorkerId | None:
        return self._routes.get(identity)

    def has_key(self, key: bytes) -> bool:
        """Return whether a CURVE key (32 bytes) is of an invitation."""
        return key in self._keys
