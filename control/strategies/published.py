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
    """Tags bottleneck stages, tries compositions that make them parallel, and keeps the cheapest that meets the SLO."""

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
        """Return the tagged stages: the bottleneck (step 3), and one more if it is parallel already (step 6)."""
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
        """After a fall of the input rate, propose the cheapest composition whose groups all keep up by the profile. The
        paper says only that it goes back (4.3.1, 4.3.2), and measures each "stage's actual processing capacity"."""
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
    """Return the compositions with every tagged stage parallel (step 3); if none, the one with most parallel stages."""
    fit = [c for c in available(situation) if tagged and _all_parallel(c, tagged)]
    if fit:
        return fit, f"{' and '.join(tagged)} must be parallel"
    most = max(available(situation), key=lambda c: (_parallel_stages(c), c.workers))
    why = "no composition makes all bottlenecks parallel" if tagged else "no stage is a bottleneck"
    return [most], f"{why}, so the most parallel composition is taken"


def _next(situation: Situation, shortlist: list[Composition], reason: str, trials: tuple[Trial, ...]) -> Proposal:
    """Return the next step: activate a single composition (step 3), try each (step 4), or select (step 5)."""
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
    """Select (step 5) the composition with the fewest workers that met the SLO; if none did, the best value."""
    met = [trial for trial in trials if trial.assessment is not None and trial.assessment.meets]
    if met:
        chosen = min(met, key=lambda trial: cheapness(trial.composition))
        why = f"{len(met)} of {len(trials)} tried compositions met the SLO, and it has the fewest workers of these"
    else:
        chosen = best_trial(situation.objective, trials)
        why = f"none of {', '.join(names)} met the SLO, and it came closest"
    reached = described(situation.objective, chosen.assessment)
    reason = f"{chosen.composition.name} is chosen: {why} ({reached} in its trial)"
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
    """Return True if every group keeps up with the rate, and the work of one item is within a latency SLO."""
    objective, rate = situation.objective, current_rate(situation.snapshot)
    times = {profile.name: profile.service_time_s for profile in situation.snapshot.stages}
    groups = [(sum(times[stage] for stage in group.stages), group.replicas) for group in composition.groups]
    asked_per_s = objective.asked_per_s(rate)
    needed_per_s = rate if asked_per_s is None else asked_per_s
    if needed_per_s is None or any(needed_per_s * seconds > replicas for seconds, replicas in groups):
        return False
    room = objective.room(needed_per_s, lambda _: sum(times.values()), rate)
    return room is None or room >= 0


# Strategy ``pdp21``: the baseline of Vogel et al. (their earlier work, as described in sections 3.2 and 4.3). On every
# start, violation and change of the input rate, all compositions are tried briefly, and one is selected as in step 5.
# The paper names profile, shortlist and trial length as differences. That the selection is the same is inferred from
# figure 4, where both end at 6 (4b) and go back to 1 after the drop (4a).

_OCCASIONS = (Trigger.START, Trigger.VIOLATION, Trigger.INPUT_RATE, Trigger.SLO, Trigger.COMPOSITIONS)


class Pdp21(Strategy):
    """Uses no profile of the stages: tries every composition, and keeps the cheapest that meets the SLO."""

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
