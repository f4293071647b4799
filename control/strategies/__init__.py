"""Strategies by name: each proposes, the manager acts (docs/decisions/0004-strategies.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compositions.errors import RecomposeError
from control.strategies.base import Strategy
from control.strategies.model import Model
from control.strategies.pdp21 import Pdp21
from control.strategies.static import Static
from control.strategies.vogel import Vogel

STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "model": Model,
    "vogel": Vogel,
    "pdp21": Pdp21,
    "static": Static,
}


class StrategyError(RecomposeError):
    """No strategy has the name asked for."""


def make_strategy(name: str) -> Strategy:
    """A fresh strategy. Raises: StrategyError when there is none called ``name``."""
    if name not in STRATEGIES:
        raise StrategyError(f"unknown strategy {name!r}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]()
