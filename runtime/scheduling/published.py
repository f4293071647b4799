"""The four heuristics of Prasaad et al. 2017, section 6."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import inf
from operator import mul

from runtime.scheduling.port import Look, Scheduler

LEAST_SELECTIVITY = 1e-9
"""An operator that has given nothing so far may give something yet; and nobody divides by 0."""


def cumulative(looks: Sequence[Look]) -> list[float]:
    """Outputs of each operator for one input of the pipeline: ``cs_i``, its own selectivity included."""
    return list(accumulate((max(look.selectivity, LEAST_SELECTIVITY) for look in looks), mul))


class Qst(Scheduler):
    """Queue-size throttling (6.1): pushes from the front. The earliest operator whose output queue is below its
    threshold ``C · cs_i / Σ cs`` (equation 1)."""

    name = "qst"

    def choose(self, looks: Sequence[Look]) -> int | None:
        outputs = cumulative(looks)
        share = self.settings.capacity / sum(outputs)
        behind = [*(look.waiting for look in looks[1:]), 0]
        room = (queue < share * each for queue, each in zip(behind, outputs, strict=True))
        return next(
            (at for at, (look, free) in enumerate(zip(looks, room, strict=True)) if free and look.schedulable), None
        )


class Lp(Scheduler):
    """Last in pipeline (6.2): pulls from the end. The latest operator with input."""

    name = "lp"

    def choose(self, looks: Sequence[Look]) -> int | None:
        least = self.settings.least_waiting
        found = _latest(at for at, look in enumerate(looks) if look.schedulable and look.waiting >= least)
        # What is left below the least would never be run at the end of a stream.
        return found if found is not None else _latest(at for at, look in enumerate(looks) if look.schedulable)


class Et(Scheduler):
    """Estimated time (6.3): the operator whose worklist would take longest with one worker more (equation 2)."""

    name = "et"

    def choose(self, looks: Sequence[Look]) -> int | None:
        return _least(looks, lambda at: -_left_s(looks[at]))


class Ct(Scheduler):
    """Current throughput (6.4): the operator that will have done least in the window, as seen from the input.

    **Erratum.** Equation 3 divides the tuples that operator *i* takes by ``cs_i``, which has its own selectivity in it;
    but inputs are in the measure of what the operators *before* it give: ``cs_{i-1}``. As printed, an operator that
    passes one tuple in a hundred seems to have done a hundred times as much, and its queue grows without bound while
    the input lasts. ``selectivity = "printed"`` is for comparison.
    """

    name = "ct"

    def choose(self, looks: Sequence[Look]) -> int | None:
        outputs = cumulative(looks)
        scale = outputs if self.settings.selectivity == "printed" else [1.0, *outputs[:-1]]
        return _least(looks, lambda at: self._done(looks[at], scale[at]))

    def _done(self, look: Look, scale: float) -> float:
        if look.cost_s is None:
            return 0.0
        return (look.spent_s + look.workers * self.settings.slice_s) / max(look.cost_s * scale, LEAST_SELECTIVITY**2)


def _left_s(look: Look) -> float:
    """What is not known yet comes first: a turn tells."""
    return inf if look.cost_s is None else look.waiting * look.cost_s / (look.workers + 1)


def _latest(found: Iterable[int]) -> int | None:
    return max(found, default=None)


def _least(looks: Sequence[Look], value: Callable[[int], float]) -> int | None:
    """The schedulable operator with the least value; of equal ones the latest, which holds the oldest tuples."""
    return min((at for at, look in enumerate(looks) if look.schedulable), key=lambda at: (value(at), -at), default=None)


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
