"""Strategies by name: a strategy proposes compositions, the manager acts (docs/decisions/0004-strategies.md)."""

from collections.abc import Callable, Mapping
from typing import Literal, cast

from compositions.errors import RecomposeError
from control.strategies.base import Static, Strategy
from control.strategies.expected_cost import ExpectedCost
from control.strategies.published import Pdp21, Vogel
from control.strategies.regulated import SparStrategy, TwoSidedStrategy
from profiler.slo import FASTEST, Slo

StrategyName = Literal["expected-cost", "vogel", "pdp21", "static", "spar", "two-sided"]
DEFAULT: StrategyName = "expected-cost"
FORMER = "model"
"""Name of the default strategy until 0.2; an alias of the present default, to be removed in 0.3."""
STRATEGIES: Mapping[StrategyName, Callable[[], Strategy]] = {
    "expected-cost": ExpectedCost,
    "vogel": Vogel,
    "pdp21": Pdp21,
    "static": Static,
    "spar": SparStrategy,
    "two-sided": TwoSidedStrategy,
}


class StrategyError(RecomposeError):
    """No strategy has the requested name."""


def present_name(name: str) -> str:
    """Return the strategy's present name: the default's for the alias ``model``."""
    return DEFAULT if name == FORMER else name


def make_strategy(name: str) -> Strategy:
    """Return a new strategy. Raises: StrategyError if no strategy is called ``name``."""
    make = STRATEGIES.get(cast(StrategyName, present_name(name)))
    if make is None:
        raise StrategyError(f"unknown strategy {name!r}; there are {', '.join(STRATEGIES)}")
    return make()


def check_takes(name: str, slo: Slo | None) -> None:
    """Check that the strategy accepts the objectives. Raises: StrategyError for several objectives, a budget, or an
    objective without a bound, if the strategy does not accept it."""
    if slo is None or make_strategy(name).several or not (slo.also or slo.budget or slo.target == FASTEST):
        return
    what = f"{len(slo.each)} objectives at once" if slo.also else "a budget" if slo.budget else f"{FASTEST!r}"
    raise StrategyError(f"strategy {name} supports one objective and no budget, not {what}; use strategy {DEFAULT}")
