"""Strategies by name: each proposes, the manager acts (docs/decisions/0004-strategies.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compositions.errors import RecomposeError
from service.strategies.base import Strategy
from service.strategies.model import Model
from service.strategies.pdp21 import Pdp21
from service.strategies.static import Static
from service.strategies.vogel import Vogel

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
