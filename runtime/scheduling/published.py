"""The four heuristics of Prasaad et al. 2017, section 6, and one of our own (``Kanban``)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import inf
from operator import mul

from runtime.scheduling.port import Look, Scheduler

LEAST_SELECTIVITY = 1e-9
"""Lower bound of the selectivity: an operator without outputs so far may still make some; also avoids division by 0."""


def cumulative(looks: Sequence[Look]) -> list[float]:
    """Return the outputs of each operator per input of the pipeline: ``cs_i``, with its own selectivity included."""
    return list(accumulate((max(look.selectivity, LEAST_SELECTIVITY) for look in looks), mul))


class Qst(Scheduler):
    """Queue-size throttling (6.1): pushes from the front. Chooses the earliest operator whose output queue is below
    its threshold ``C · cs_i / Σ cs`` (equation 1)."""

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
    """Last in pipeline (6.2): pulls from the end. Chooses the latest operator with input."""

    name = "lp"

    def choose(self, looks: Sequence[Look]) -> int | None:
        least = self.settings.least_waiting
        found = _latest(at for at, look in enumerate(looks) if look.schedulable and look.waiting >= least)
        # Otherwise a rest smaller than ``least`` would never run at the end of a stream.
        return found if found is not None else _latest(at for at, look in enumerate(looks) if look.schedulable)


class Et(Scheduler):
    """Estimated time (6.3): chooses the operator whose worklist takes longest with one more worker (equation 2)."""

    name = "et"

    def choose(self, looks: Sequence[Look]) -> int | None:
        return _least(looks, lambda at: -_left_s(looks[at]))


class Ct(Scheduler):
    """Current throughput (6.4): chooses the operator with the least work in the window, in inputs of the pipeline.

    **Erratum.** Equation 3 divides the tuples that operator *i* takes by ``cs_i``, which includes its own selectivity.
    But its inputs are the outputs of the operators *before* it, so the divisor must be ``cs_{i-1}``. As printed, an
    operator that passes one tuple in a hundred seems to have done a hundred times as much, and its queue grows without
    bound while the input lasts. ``selectivity = "printed"`` is for comparison.
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
    """Return the time that the worklist would take; infinite if the cost is unknown, so that a turn measures it."""
    return inf if look.cost_s is None else look.waiting * look.cost_s / (look.workers + 1)


def _latest(found: Iterable[int]) -> int | None:
    return max(found, default=None)


def _least(looks: Sequence[Look], value: Callable[[int], float]) -> int | None:
    """Return the schedulable operator with the least value; of equal ones the latest, which holds the oldest tuples."""
    return min((at for at, look in enumerate(looks) if look.schedulable), key=lambda at: (value(at), -at), default=None)


class Kanban(Scheduler):
    """Chooses the latest operator with input, as ``lp`` does, whose output queue has room, as ``qst`` requires.

    The room is the number of tuples that the next operator's maximum of workers process in ``ahead`` slices. If an
    operator is at its maximum parallelism (stateful, or few partitions), the published heuristics send idle workers to
    operators before it, whose outputs then wait: the throughput is the same, but the latency grows as long as the
    stream lasts. Here these workers stay idle.
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
