"""Who is expected at a hub: an invitation for every worker, known by its name, its routing id and its key."""

from __future__ import annotations

import hmac
import secrets

from zmq.utils import z85

from runtime.dispatch.events import WorkerId
from runtime.transport.invitation import SECRET_BYTES, Invitation, Network


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
        """Whether a CURVE key (32 bytes) is of an invitation."""
        return key in self._keys
