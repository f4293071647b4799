"""Strategies ``vogel`` and ``pdp21``, as published.

``vogel`` has the six steps of Vogel et al., "Online and Transparent Self-Adaptation of Stream Parallel Patterns",
section 3.2. Step 1 (profile) is the profiler's, step 6 (check every 10 s) the manager's.
"""

from collections.abc import Sequence

from compositions.model import Composition, Pattern
from control.decisions import Candidate, Trigger
from control.reading import current_rate
from control.situation import Situation
from control.strategies.base import (
    Proposal,
    Settle,
    Stay,
    Strategy,
    Trial,
    Try,
    available,
    best_trial,
    candidates,
    cheapness,
    described,
)
from profiler.service_time import bottlenecks, next_bottleneck
from profiler.snapshot import LatencyFrom
from runtime.dispatch.events import SwitchStyle


class Vogel(Strategy):
    """Tags the bottleneck, tries what makes the tagged stages parallel, keeps the cheapest that will do."""

    name = "vogel"
    latency_from = LatencyFrom.READ
    style = SwitchStyle.DRAIN
    drain_sample = "paper"

    def __init__(self) -> None:
        self._tagged: tuple[str, ...] = ()

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        if situation.assessment.meets and not trials:
            return self._cheaper(situation)
        if not trials:
            self._tagged = self._tag(situation)
        shortlist, reason = _shortlist(situation, self._tagged)
        return _next(situation, shortlist, reason, trials)

    def _tag(self, situation: Situation) -> tuple[str, ...]:
        """Step 3: the bottleneck; when the active composition has it parallel already, one more (step 6)."""
        profiles = situation.snapshot.stages
        threshold = situation.settings.trials.bottleneck_threshold
        tagged = bottlenecks(profiles, threshold)
        if self._tagged and _all_parallel(situation.active, self._tagged) and set(tagged) <= set(self._tagged):
            tagged = self._tagged
        if situation.trigger is not Trigger.VIOLATION or not tagged or not _all_parallel(situation.active, tagged):
            return tagged
        more = next_bottleneck(profiles, tagged, threshold)
        return tagged if more is None else (*tagged, more)

    def _cheaper(self, situation: Situation) -> Proposal:
        """When the input rate fell: the cheapest composition whose every group keeps up by the profile. The paper says
        only that it goes back (sections 4.3.1, 4.3.2), and measures each "stage's actual processing capacity"."""
        if situation.trigger is not Trigger.INPUT_RATE:
            return Stay(situation.assessment.reason)
        self._tagged = ()
        fit = [c for c in available(situation) if c.workers < situation.active.workers and _suffices(situation, c)]
        if not fit:
            return Stay("no composition with fewer workers keeps up with the input rate by the profile")
        choice = min(fit, key=cheapness)
        why = f"{choice.name} keeps up with {choice.workers} instead of {situation.active.workers} workers"
        why_not = "needs more workers, or a group of it is too slow by the profile"
        listed = candidates(available(situation), [c.name for c in fit], why_not, why, choice.name)
        return Settle(choice, listed, why)


def _shortlist(situation: Situation, tagged: Sequence[str]) -> tuple[list[Composition], str]:
    """Step 3: every tagged stage parallel; without a tag, or without such a composition, the most replicated stages."""
    fit = [c for c in available(situation) if tagged and _all_parallel(c, tagged)]
    if fit:
        return fit, f"{' and '.join(tagged)} must be parallel"
    most = max(available(situation), key=lambda c: (_parallel_stages(c), c.workers))
    why = "no composition makes all bottlenecks parallel" if tagged else "no stage is a bottleneck"
    return [most], f"{why}: the most replicated stages"


def _next(situation: Situation, shortlist: list[Composition], reason: str, trials: tuple[Trial, ...]) -> Proposal:
    """Steps 3 (one left: activate), 4 (try each) and 5 (select)."""
    names = [c.name for c in shortlist]
    listed = candidates(available(situation), names, f"not shortlisted: {reason}", reason)
    if len(shortlist) == 1 and not trials:
        return _only_one(situation, shortlist[0], listed, reason)
    tried = {trial.composition.name for trial in trials}
    left = [c for c in shortlist if c.name not in tried]
    if left:
        return Try(left[0], situation.settings.trials.trial_s, listed, f"shortlisted {', '.join(names)}: {reason}")
    return _select(situation, trials, names)


def _only_one(situation: Situation, one: Composition, listed: tuple[Candidate, ...], reason: str) -> Proposal:
    if one.shape == situation.active.shape:
        return Settle(one, listed, f"{reason}, and {one.name} is active already", infeasible=True)
    listed = candidates(available(situation), (), f"not shortlisted: {reason}", reason, one.name)
    return Settle(one, listed, f"only {one.name} is left: {reason}")


def _select(situation: Situation, trials: tuple[Trial, ...], names: list[str]) -> Settle:
    """Step 5: of those that met the SLO the one with light stages merged and fewest replicas, else the best value."""
    met = [trial for trial in trials if trial.assessment is not None and trial.assessment.meets]
    if met:
        chosen = min(met, key=lambda trial: cheapness(trial.composition))
        reason = f"{chosen.composition.name} meets the SLO with the fewest workers of {len(met)} that do"
    else:
        chosen = best_trial(situation.objective, trials)
        reason = f"none of {', '.join(names)} met the SLO; {chosen.composition.name} came closest"
    reason += f" ({described(situation.objective, chosen.assessment)})"
    listed = candidates(available(situation), names, "not shortlisted", "tried", chosen.composition.name)
    return Settle(chosen.composition, listed, reason, infeasible=not met)


def _all_parallel(composition: Composition, stages: Sequence[str]) -> bool:
    return all(_is_parallel(composition, stage) for stage in stages)


def _is_parallel(composition: Composition, stage: str) -> bool:
    group = composition.group_of(stage)
    return group.pattern is Pattern.PAR and group.replicas > 1


def _parallel_stages(composition: Composition) -> int:
    return sum(len(group.stages) for group in composition.groups if group.replicas > 1)


def _suffices(situation: Situation, composition: Composition) -> bool:
    """Every group keeps up with the rate, and one item alone is fast enough for a latency SLO."""
    objective, rate = situation.objective, current_rate(situation.snapshot)
    times = {profile.name: profile.service_time_s for profile in situation.snapshot.stages}
    groups = [(sum(times[stage] for stage in group.stages), group.replicas) for group in composition.groups]
    asked_per_s = objective.asked_per_s(rate)
    needed_per_s = rate if asked_per_s is None else asked_per_s
    if needed_per_s is None or any(needed_per_s * seconds > replicas for seconds, replicas in groups):
        return False
    room = objective.room(needed_per_s, lambda _: sum(times.values()), rate)
    return room is None or room >= 0


# Strategy ``pdp21``: the baseline of Vogel et al. (their earlier work, as described in sections 3.2 and 4.3): on every
# start, violation and change of the input rate, try all compositions briefly, and select as in step 5. The paper names
# profile, shortlist and length of a trial as the differences; that the selection is the same is read from figure 4,
# where both end at 6 (4b) and go back to 1 after the drop (4a).

_OCCASIONS = (Trigger.START, Trigger.VIOLATION, Trigger.INPUT_RATE, Trigger.SLO, Trigger.COMPOSITIONS)


class Pdp21(Strategy):
    """Knows nothing about the stages: measures every composition, and keeps the cheapest that meets the SLO."""

    name = "pdp21"
    latency_from = LatencyFrom.READ
    style = SwitchStyle.DRAIN
    drain_sample = "paper"

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
        return _select(situation, trials, names)
