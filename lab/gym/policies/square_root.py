"""Port Erlang's square-root rule: policy ``square-root``.

Source: Halfin and Whitt, "Heavy-Traffic Limits for Queues with Many Exponential Servers" (Operations Research 29,
1981): with load + β · sqrt(load) servers the share of items that have to wait depends on β alone. Our choices: the load
is the rate of the last 1.5 s times the service time; to it come the servers that work off in the bound what waits
beyond a usual queue; the highest number of the last 3 s is kept. β, the rate's window and the hold are those with which
the rule was first measured in this project.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from lab.gym.policies.port import Given, Measured, Policy, Replicas
from lab.gym.policies.window import Window

_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class SquareRootSettings:
    """The values that were first measured."""

    beta: float = 0.8
    rate_s: float = 1.5
    """Time over which arrivals are counted."""
    hold_s: float = 3.0
    """Time for which a number of replicas is kept."""
    service_s: float = 30.0
    """Time over which service times are measured."""
    fewest: int = 5
    """Items over which service times are measured."""
    usual_items: float = 2.0
    """A queue of this many items, plus …"""
    usual_share: float = 0.2
    """… this share of the arrivals within the bound, needs no additional servers."""


PUBLISHED = SquareRootSettings()


class SquareRoot(Policy):
    """The rule. Each stage has its own servers; in the merged form, neighbours share them."""

    def __init__(self, given: Given, settings: SquareRootSettings = PUBLISHED) -> None:
        self._bound_s, self._settings = given.bound_s, settings
        self._arrivals, self._services = Window(settings.rate_s), Window(settings.service_s)
        self._needed: deque[tuple[float, list[int]]] = deque()
        self._now: Measured | None = None

    def observe(self, measured: Measured) -> None:
        self._now = measured
        self._arrivals.add(measured)
        self._services.add(measured)

    def decide(self) -> Replicas:
        now = self._now
        if now is None or any(self._services.done(index) < self._settings.fewest for index in range(len(now.stages))):
            return {}
        self._needed.append((now.at_s, [self._servers(index, now) for index in range(len(now.stages))]))
        while self._needed[0][0] < now.at_s - self._settings.hold_s:
            self._needed.popleft()
        kept = [max(counts) for counts in zip(*(counts for _, counts in self._needed), strict=True)]
        return {stage.name: count for stage, count in zip(now.stages, kept, strict=True)}

    def _servers(self, index: int, now: Measured) -> int:
        rate_per_s, service_s = self._arrivals.arrived_per_s, self._services.service_s(index) or 0.0
        settings, stage = self._settings, now.stages[index]
        usual = stage.ready + settings.usual_items + settings.usual_share * rate_per_s * self._bound_s
        pile = max(0.0, stage.waiting - usual) * service_s / self._bound_s
        return staffed(rate_per_s * service_s, settings.beta, pile)


def staffed(load: float, beta: float, pile: float = 0.0) -> int:
    """Return the servers for this load, and for a backlog that ``pile`` servers work off."""
    return max(1, math.ceil(load + beta * math.sqrt(load) + pile - _EXACT))
