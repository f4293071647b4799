"""Strategies by name: each proposes, the manager acts (docs/decisions/0004-strategies.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, cast

from compositions.errors import RecomposeError
from control.strategies.base import Strategy
from control.strategies.model import Model
from control.strategies.pdp21 import Pdp21
from control.strategies.regulated import SparStrategy, TwoSidedStrategy
from control.strategies.static import Static
from control.strategies.vogel import Vogel

StrategyName = Literal["model", "vogel", "pdp21", "static", "spar", "two-sided"]
STRATEGIES: Mapping[StrategyName, Callable[[], Strategy]] = {
    "model": Model,
    "vogel": Vogel,
    "pdp21": Pdp21,
    "static": Static,
    "spar": SparStrategy,
    "two-sided": TwoSidedStrategy,
}


class StrategyError(RecomposeError):
    """No strategy has the name asked for."""


def make_strategy(name: str) -> Strategy:
    """A fresh strategy. Raises: StrategyError when there is none called ``name``."""
    make = STRATEGIES.get(cast(StrategyName, name))
    if make is None:
        raise StrategyError(f"unknown strategy {name!r}; there are {', '.join(STRATEGIES)}")
    return make()
