"""Play every policy on every pair, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from compositions.errors import RecomposeError
from lab.gym.bounds import Bound, bound_of
from lab.gym.model import Floats, Play
from lab.gym.player import play_run
from lab.gym.players import player
from lab.gym.score import Score, late_by_minute, score_of
from lab.gym.steering import Change
from lab.gym.suite import Pair

PICTURE_STEP_S = 10


@dataclass(frozen=True, slots=True)
class Course:
    """The data of a run's picture, in steps of ``PICTURE_STEP_S``."""

    alive: Floats
    late: Floats
    """Late items by minute."""
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a policy on a pair."""

    pair: Pair
    policy: str
    score: Score
    bound: Bound
    course: Course

    @property
    def over_best(self) -> float:
        """Return its cost divided by the cost of the cheapest schedule that was found."""
        return self.score.cost / self.bound.found

    @property
    def over_floor(self) -> float:
        """Return its cost divided by the floor."""
        return self.score.cost / self.bound.floor


@dataclass(frozen=True, slots=True)
class Contest:
    """Policies, and the pairs on which each of them plays."""

    policies: Sequence[str]
    pairs: Sequence[Pair]

    def play(self, tell: Callable[[Result], None] = lambda _: None) -> tuple[Result, ...]:
        """Play all. Raises: RecomposeError for an unknown policy, app or load, before anything runs."""
        for name in self.policies:
            player(name)
        for pair in self.pairs:
            _play_of(pair)
        tasks = [(pair, name) for pair in self.pairs for name in self.policies]
        with ProcessPoolExecutor(os.process_cpu_count() if hasattr(os, "process_cpu_count") else None) as processes:
            bounds = dict(zip(self.pairs, processes.map(_bound, self.pairs), strict=True))
            results = []
            for each in _as_done(processes, tasks):
                pair, name, score, course = each
                results.append(Result(pair, name, score, bounds[pair], course))
                tell(results[-1])
        order = {task: number for number, task in enumerate(tasks)}
        return tuple(sorted(results, key=lambda each: order[each.pair, each.policy]))


def _as_done(
    processes: ProcessPoolExecutor, tasks: Iterable[tuple[Pair, str]]
) -> Iterator[tuple[Pair, str, Score, Course]]:
    waiting = [processes.submit(_run, *task) for task in tasks]
    try:
        for done in as_completed(waiting):
            yield done.result()
    finally:
        for each in waiting:
            each.cancel()


@lru_cache(maxsize=2)
def _play_of(pair: Pair) -> Play:
    return pair.play()


def _bound(pair: Pair) -> Bound:
    return bound_of(_play_of(pair))


def _run(pair: Pair, policy: str) -> tuple[Pair, str, Score, Course]:
    try:
        run = play_run(_play_of(pair), player(policy))
    except RecomposeError as error:
        raise RecomposeError(f"policy {policy} in {pair.name}: {error}") from error
    whole = len(run.alive) // PICTURE_STEP_S * PICTURE_STEP_S
    alive = np.asarray(run.alive[:whole]).reshape(-1, PICTURE_STEP_S).mean(axis=1)
    return pair, policy, score_of(run), Course(alive, late_by_minute(run), run.changes)
