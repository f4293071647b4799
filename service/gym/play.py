"""Policies, and how one of them is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compositions.errors import RecomposeError
from service.gym.clairvoyant import Clairvoyant
from service.gym.figures import Figures, figures_of
from service.gym.piloting import Piloting
from service.gym.policies import PORTS, MakePolicy
from service.gym.policies.own import read_policy
from service.gym.policies.port import Given, Policy
from service.gym.task import Task
from service.running.simulated.scenario import Scenario
from service.running.simulated.simulation import simulate

Contender = Callable[[Task], Scenario]


def steered_by(make: MakePolicy) -> Contender:
    """With each stage a group of its own, or as the policy says."""

    def scenario(task: Task) -> Scenario:
        given = Given(tuple(stage.name for stage in task.stages), task.bound_s, task.most_workers)
        return task.steered(lambda: Piloting(given, _made(make, given)))

    return scenario


def _made(make: MakePolicy, given: Given) -> Policy:
    try:
        return make(given)
    except Exception as error:  # the user's own code, whatever it raises
        name = getattr(make, "__name__", "given")
        said = f"{type(error).__name__}: {error}"
        raise RecomposeError(f"policy {name} cannot be made with what is given at the start: {said}") from error


POLICIES: Mapping[str, Contender] = {
    "model": lambda task: task.scenario("model"),
    "vogel": lambda task: task.scenario("vogel"),
    "pdp21": lambda task: task.scenario("pdp21"),
    "spar": lambda task: task.scenario("spar", task.merged),
    **{name: steered_by(make) for name, make in PORTS.items()},
    "mean": lambda task: task.scenario("static", Clairvoyant(task).mean()),
    "peak": lambda task: task.scenario("static", Clairvoyant(task).peak()),
}
"""``peak``: what the highest rate of the load needs, all the time; ``mean``: what its mean rate does."""


def contender(name: str) -> Contender:
    """One of them, or a user's own: ``path.py:ClassName``. Raises: RecomposeError when it is neither."""
    if name in POLICIES:
        return POLICIES[name]
    if ".py:" in name:
        return steered_by(read_policy(name))
    raise RecomposeError(f"unknown policy {name!r}; there are {', '.join(POLICIES)}, or a file's: policy.py:MyPolicy")


def play(task: Task, policy: str) -> Figures:
    """Raises: KeyError for a policy that is not among them."""
    return figures_of(task, simulate(POLICIES[policy](task)))
