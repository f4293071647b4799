"""Find who plays by name: strategies of the product, policies of other systems, and a user's own."""

from __future__ import annotations

from collections.abc import Mapping

from compositions.errors import RecomposeError
from lab.gym.player import Player, Strategy
from lab.gym.policies import PORTS, TUNED
from lab.gym.policies.own import read_policy

STRATEGIES: Mapping[str, Strategy] = {
    "model": Strategy("model"),
    "vogel": Strategy("vogel"),
    "pdp21": Strategy("pdp21"),
    "spar": Strategy("spar", first="merged"),
}
PLAYERS: Mapping[str, Player] = {**STRATEGIES, **PORTS, **TUNED}


def player(name: str) -> Player:
    """Return one of them, or a user's own, ``path.py:ClassName``. Raises: RecomposeError if it is neither."""
    if name in PLAYERS:
        return PLAYERS[name]
    if ".py:" in name:
        return read_policy(name)
    raise RecomposeError(f"unknown policy {name!r}; there are {', '.join(PLAYERS)}, or a file's: policy.py:MyPolicy")
