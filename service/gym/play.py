"""Policies, and how one of them is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from service.gym.clairvoyant import Clairvoyant
from service.gym.figures import Figures, figures_of
from service.gym.task import Task
from service.running.simulated.scenario import Scenario
from service.running.simulated.simulation import simulate

POLICIES: Mapping[str, Callable[[Task], Scenario]] = {
    "model": lambda task: task.scenario("model"),
    "vogel": lambda task: task.scenario("vogel"),
    "pdp21": lambda task: task.scenario("pdp21"),
    "peak": lambda task: task.scenario("static", Clairvoyant(task).peak()),
}
"""``peak``: what the highest rate of the load needs, all the time."""


def play(task: Task, policy: str) -> Figures:
    """Raises: KeyError for a policy that is not among them."""
    return figures_of(task, simulate(POLICIES[policy](task)))
