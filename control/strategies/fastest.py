"""Choose for the objective ``fastest``: the fewest workers whose throughput is within 3 % of the highest possible."""

import numpy as np

from compositions.wording import figure
from control.decisions import Candidate, CandidateStatus
from control.expect import Unmeasured, expect
from control.situation import Situation
from control.strategies.base import Settle, Stay, available

_AS_FAST = 0.97
_WORTH_IT = 1.05
"""Factor by which another composition must be faster than the present one, unless it needs fewer workers."""
_EVERY_S = 10.0
"""Time between two choices, in seconds: stage times are averaged over about as long."""


class Fastest:
    """Chooses by the capacity model. It assumes that input is unlimited, so no item has a latency bound."""

    def __init__(self) -> None:
        self._looked_s = -np.inf

    def propose(self, situation: Situation) -> Settle | Stay:
        """Propose the composition with the fewest workers among the fastest ones within the budget."""
        active, budget = situation.active, situation.budget
        if situation.now_s - self._looked_s < _EVERY_S:
            return Stay(f"{active.name} stays: {situation.assessment.reason}")
        most = budget.workers or max(each.workers for each in (active, *situation.compositions))
        choice = [each for each in available(situation) if each.workers <= most and each.dyn is None]
        choice = choice or [active]
        predicted = expect(choice, situation.snapshot)
        if isinstance(predicted, Unmeasured):
            return Stay(f"too few samples: {predicted.stage} has no timings")
        self._looked_s = situation.now_s
        rates = predicted.throughput_per_s
        if budget.cores is not None:
            rates = np.where(predicted.workers <= max(1.0, budget.cores), rates, 0.0)
        best = float(rates.max())
        fast = [at for at in range(len(choice)) if rates[at] >= _AS_FAST * best]
        at = min(fast, key=lambda at: (choice[at].workers, len(choice[at].groups), -rates[at]))
        found, rate = choice[at], float(rates[at])
        here = next((float(rates[at]) for at, each in enumerate(choice) if each.shape == active.shape), 0.0)
        told = f"{found.name} is expected to do {figure(rate)} items/s with {found.workers} workers"
        if found.shape == active.shape or (here * _WORTH_IT >= rate and active.workers <= found.workers):
            return Stay(f"{active.name} stays: no composition is expected to do more than {figure(best)} items/s")
        ranked = sorted(fast, key=lambda at: (choice[at].workers, -rates[at]))[:4]
        chosen = Candidate(found.name, found.workers, CandidateStatus.CHOSEN, told, rate)
        others = tuple(
            Candidate(choice[o].name, choice[o].workers, CandidateStatus.REJECTED, "more workers", float(rates[o]))
            for o in ranked
            if o != at
        )
        return Settle(found, (chosen, *others), f"{told}, and no composition more than {figure(best)} items/s")
