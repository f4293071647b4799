"""Settings of the transport: how much of it is for those who have not proved who they are."""

from __future__ import annotations

from dataclasses import dataclass

from compositions.settings import ranged


@dataclass(frozen=True, slots=True)
class LobbySettings:
    stranger_s: float = ranged(5.0, 0.1, 600, "s")
    """A connection that has not proved itself after so long is closed. An invited worker takes milliseconds."""
    strangers: int = ranged(128, 1, 65_536)
    """More than this at a time, and the one that has waited longest is closed: more than workers ever start at once."""
    full_pause_s: float = ranged(1.0, 0.01, 60, "s")
    """No connection is taken for so long when the process or the machine has no room for another."""
