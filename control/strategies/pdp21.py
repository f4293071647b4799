"""Strategy ``pdp21``: the baseline of Vogel et al. (their earlier work, as described in sections 3.2 and 4.3):
on every start, violation and change of the input rate, try all compositions briefly and take the best."""

from __future__ import annotations

from control.decisions import Trigger
from control.situation import Situation
from control.strategies.base import Proposal, Settle, Stay, Strategy, Trial, Try
from control.strategies.rules import available, best_trial, candidates, cheapness, described
from profiler.snapshot import LatencyFrom
from runtime.dispatch.events import SwitchStyle

_OCCASIONS = (Trigger.START, Trigger.VIOLATION, Trigger.INPUT_RATE, Trigger.SLO, Trigger.COMPOSITIONS)


class Pdp21(Strategy):
    """Knows nothing about the stages: measures every composition."""

    name = "pdp21"
    latency_from = LatencyFrom.READ
    style = SwitchStyle.DRAIN

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        if situation.trigger not in _OCCASIONS:
            return Stay(situation.assessment.reason)
        tried = {trial.composition.name for trial in trials}
        all_of_them = sorted(available(situation), key=cheapness)
        left = [c for c in all_of_them if c.name not in tried]
        names = [c.name for c in all_of_them]
        if left:
            listed = candidates(all_of_them, names, "", "all compositions are tried")
            return Try(left[0], situation.settings.trials.pdp21_trial_s, listed, "all compositions are tried")
        return _best(situation, trials, names)


def _best(situation: Situation, trials: tuple[Trial, ...], names: list[str]) -> Settle:
    chosen = best_trial(situation.objective, trials)
    met = any(trial.assessment is not None and trial.assessment.meets for trial in trials)
    reason = (
        f"{chosen.composition.name} has the best value of all ({described(situation.objective, chosen.assessment)})"
    )
    listed = candidates(available(situation), names, "", "tried", chosen.composition.name)
    return Settle(chosen.composition, listed, reason, infeasible=not met)
