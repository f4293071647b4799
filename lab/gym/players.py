"""Find who plays by name: strategies of the product, policies of other systems, and a user's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from compositions.errors import RecomposeError
from lab.gym.hindsight import fixed_for
from lab.gym.player import Knowing, Player, Strategy
from lab.gym.policies import PORTS, TUNED
from lab.gym.policies.own import read_policy

STRATEGIES: Mapping[str, Strategy] = {
    "expected-cost": Strategy("expected-cost"),
    "vogel": Strategy("vogel"),
    "pdp21": Strategy("pdp21"),
    "spar": Strategy("spar", first="merged"),
}
FIXED: Mapping[str, Knowing] = {
    "peak": Knowing(partial(fixed_for, steps_s=60.0)),
    "mean": Knowing(partial(fixed_for, steps_s=math.inf)),
}
"""Compositions that never change and know the load: for its busiest minute, and for its mean."""
PLAYERS: Mapping[str, Player] = {**STRATEGIES, **PORTS, **TUNED, **FIXED}


def player(name: str) -> Player:
    """Return one of them, or a user's own, ``path.py:ClassName``. Raises: RecomposeError if it is neither."""
    if name in PLAYERS:
        return PLAYERS[name]
    if ".py:" in name:
        return read_policy(name)
    raise RecomposeError(f"unknown policy {name!r}; there are {', '.join(PLAYERS)}, or a file's: policy.py:MyPolicy")
