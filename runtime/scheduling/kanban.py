"""Scheduler ``kanban``, ours: pulls from the end, and makes nothing ahead that nobody can take."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.scheduling.port import Look, Scheduler


class Kanban(Scheduler):
    """The latest operator with input, as ``lp``, whose output queue has room, as ``qst``.

    Room is what the workers that the next operator can have take in ``ahead`` slices, each. Where an operator is at its
    maximal parallelism (a stateful one, few partitions) the published heuristics send idle workers to those before it,
    whose outputs then wait: throughput is the same, latency grows as long as the stream lasts. Here these workers idle.
    """

    name = "kanban"

    def choose(self, looks: Sequence[Look]) -> int | None:
        for at in reversed(range(len(looks))):
            if looks[at].schedulable and (at + 1 == len(looks) or self._room(looks[at + 1])):
                return at
        return None

    def _room(self, following: Look) -> bool:
        each = self.settings.ahead * self.allotment(following)
        return following.waiting < following.most_workers * max(1.0, each)
