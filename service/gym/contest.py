"""Policies against loads: every policy in every load, with the same arrivals and costs for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from service.gym.clairvoyant import Clairvoyant
from service.gym.figures import Figures, figures_of
from service.gym.play import contender
from service.gym.suite import DURATION_S, Load, task_of
from service.running.simulated.simulation import simulate


@dataclass(frozen=True, slots=True)
class Round:
    """One run of one policy, and what it is compared with."""

    load: str
    group: str
    seed: int
    policy: str
    figures: Figures
    least_worker_s: float
    """Of the clairvoyant."""
    peak_worker_s: float
    """Of the composition provisioned for the peak."""

    @property
    def against_least(self) -> float:
        """Goodput per worker-second, of that of a clairvoyant with all items in time."""
        figures = self.figures
        return figures.in_time * self.least_worker_s / figures.worker_s if figures.worker_s else 0.0

    @property
    def cost(self) -> float:
        """Worker-seconds, of those of peak provisioning."""
        return self.figures.worker_s / self.peak_worker_s


@dataclass(frozen=True, slots=True)
class Contest:
    """What is to be played."""

    policies: Sequence[str]
    loads: Sequence[Load]
    seeds: int = 1
    duration_s: float = DURATION_S

    @property
    def runs(self) -> int:
        return len(self.policies) * len(self.loads) * self.seeds

    def play(self, told: Callable[[Round], None] = lambda _: None) -> tuple[Round, ...]:
        """Raises: RecomposeError for a policy that there is not, before anything runs."""
        for name in self.policies:
            contender(name)
        rounds = []
        for each in self._rounds():
            told(each)
            rounds.append(each)
        return tuple(rounds)

    def _rounds(self) -> Iterator[Round]:
        for seed in range(self.seeds):
            for load in self.loads:
                task = task_of(load, seed, self.duration_s)
                known = Clairvoyant(task)
                bounds = known.worker_s(), known.peak().workers * task.duration_s
                for name in self.policies:
                    figures = figures_of(task, simulate(contender(name)(task)))
                    yield Round(load.name, load.group, seed, name, figures, *bounds)
