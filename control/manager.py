"""The manager: snapshots in, commands and decisions out. A state machine without clock, chance or I/O.

profiling → (trial)* → switching → stable, after Vogel et al., section 3.2. What to try and choose is the strategy's;
when to ask it is :mod:`control.watch`'s; this module carries the answer through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compositions.errors import RecomposeError
from compositions.model import Composition, Stage, all_sequential
from control.assess import Assessment, assess, unsure
from control.backlog import Backlog
from control.decisions import Command, Decision, Mode, NoChange, ResetWindow, State, SwitchTo, Trigger
from control.episode import Episode, Outcomes
from control.objectives import objective_of
from control.settings import Measuring, Settings
from control.situation import Situation
from control.strategies.base import Settle, Stay, Strategy, Trial, Try
from control.watch import Due, Watch
from profiler.slo import Slo, SloStatus
from profiler.snapshot import Snapshot


class ManagerError(RecomposeError):
    """The manager was asked for something it cannot do; the text says what it can."""


@dataclass(frozen=True, slots=True)
class TickResult:
    """What one tick brought: commands to carry out, a decision or the reason for none, and where things stand."""

    commands: tuple[Command, ...]
    decision: Decision | NoChange
    state: State
    slo_status: SloStatus


_Answer = tuple[tuple[Command, ...], Decision | NoChange]


@dataclass(frozen=True, slots=True)
class _Switch:
    target: Composition
    asked_s: float


class Manager:
    """One per app. ``first`` is the composition active at the start; without it, the one the first snapshot names."""

    def __init__(
        self,
        settings: Settings,
        strategy: Strategy,
        stages: Sequence[Stage],
        compositions: Iterable[Composition],
        mode: Mode = Mode.AUTO,
        slo: Slo | None = None,
        *,
        first: Composition | None = None,
    ) -> None:
        self.mode = mode
        self.objective = None if slo is None else objective_of(slo)
        self._settings = settings
        self._strategy = strategy
        self._stages = tuple(stages)
        self._compositions = tuple(compositions)
        strategy.prepare(self._compositions)
        self._active = first
        self._watch = Watch(settings.rhythm, strategy.pace(settings))
        self._state = State.PROFILING
        self._due: Due | None = Due(Trigger.START, "the app started")
        self._manual: Composition | None = None
        self._episode: Episode | None = None
        self._switch: _Switch | None = None
        self._failure: str | None = None
        self._unavailable: dict[str, tuple[float, str]] = {}
        self._infeasible: str | None = None
        self._observed: Decision | None = None
        self._backlog = Backlog()
        self._outcomes = Outcomes(settings.measuring.outcome_s)
        self._count = 0

    @property
    def slo(self) -> Slo | None:
        """The objective as it was asked for."""
        return None if self.objective is None else self.objective.slo

    # --- events -----------------------------------------------------------------------------------------------------

    def set_slo(self, slo: Slo | None) -> None:
        """Replaces the objective; what was under way for the old one is dropped."""
        self.objective = None if slo is None else objective_of(slo)
        self._renew(Due(Trigger.SLO, "the SLO was set" if slo else "the SLO was removed"))

    def set_compositions(self, compositions: Iterable[Composition]) -> None:
        """Replaces what can be chosen from."""
        self._compositions = tuple(compositions)
        self._strategy.prepare(self._compositions)
        self._renew(Due(Trigger.COMPOSITIONS, "the compositions were changed"))

    def set_mode(self, mode: Mode, composition: str | None = None) -> None:
        """Changes the mode; ``composition`` is what to pin, the active one when not given.

        Raises: ManagerError when ``composition`` is not known, or given in another mode.
        """
        if composition is not None and mode is not Mode.PINNED:
            raise ManagerError(f"mode {mode} takes no composition; {composition!r} can only be pinned")
        self._manual = None if composition is None else self._named(composition)
        self.mode = mode
        self._renew(Due(Trigger.MANUAL, f"the mode was set to {mode}"))

    def switch_failed(self, reason: str) -> None:
        """The switch under way ended with an error; the old composition is still running."""
        self._failure = reason

    def workers_lost(self, now_s: float, reason: str) -> None:
        """Workers died: what is measured until others have taken their place is not the composition's doing."""
        self._watch.hold(now_s + self._settings.rhythm.recovery_s, f"a worker was lost ({reason})")

    def outcomes(self) -> tuple[Decision, ...]:
        """Decisions whose outcome became known since the last call, with ``outcome`` filled in."""
        return self._outcomes.taken()

    # --- the tick ---------------------------------------------------------------------------------------------------

    def tick(self, now_s: float, snapshot: Snapshot) -> TickResult:
        """One step. Snapshots come in order; a command is carried out before the next but one at the latest begins."""
        seen = assess(self.objective, snapshot, self._settings.measuring)
        seen = self._backlog.excused(self.objective, snapshot, seen)
        commands, said = self._step(now_s, snapshot, seen)
        return TickResult(commands, said, self._state, self._status(seen))

    def _step(self, now_s: float, snapshot: Snapshot, seen: Assessment) -> _Answer:
        if self._switch is not None:
            return self._switching(now_s, snapshot, seen, self._switch)
        self._active = self._active_of(snapshot)
        if self._backlog.reset_due(self.objective, snapshot, seen):
            return (ResetWindow(),), NoChange(now_s, "the backlog is worked off; measuring anew")
        if self._episode is not None and isinstance(self._episode.step, Try):
            return self._trying(now_s, snapshot, seen, self._episode, self._episode.step)
        return self._resting(now_s, snapshot, seen, self._active)

    def _switching(self, now_s: float, snapshot: Snapshot, seen: Assessment, switch: _Switch) -> _Answer:
        failure, self._failure = self._failure, None
        if failure is None and now_s - switch.asked_s > self._settings.rhythm.switch_limit_s:
            failure = f"it had not ended after {now_s - switch.asked_s:.0f} s"
        if failure is not None:
            return self._not_switched(now_s, snapshot, seen, switch, failure)
        done = not snapshot.switching and snapshot.composition == switch.target.name
        if not (done and snapshot.stable_since_s >= switch.asked_s):
            return _nothing(now_s, f"switching to {switch.target.name}")
        self._switch, self._active = None, switch.target
        self._backlog.inherit()
        self._watch.hold(now_s + self._settings.rhythm.cool_down_s, f"just switched to {switch.target.name}")
        return self._arrived(now_s, snapshot)

    def _arrived(self, now_s: float, snapshot: Snapshot) -> _Answer:
        """The switch is done: begin the trial it was for, or close the decision."""
        episode = self._episode
        if episode is None or episode.step is None:
            self._state = State.STABLE
            return _nothing(now_s, "the switch was overtaken by a newer request")
        if isinstance(episode.step, Try):
            self._state = State.TRIAL
            return _nothing(now_s, f"trying {episode.step.composition.name}")
        return self._close(now_s, snapshot, episode, episode.step)

    def _not_switched(
        self, now_s: float, snapshot: Snapshot, seen: Assessment, switch: _Switch, failure: str
    ) -> _Answer:
        """The old composition runs on; the strategy goes on without the one that failed."""
        name = switch.target.name
        self._unavailable[name] = (now_s + self._settings.rhythm.failed_switch_pause_s, failure)
        self._switch, self._state = None, State.STABLE
        self._watch.hold(now_s + self._settings.rhythm.cool_down_s, f"the switch to {name} failed")
        episode = self._episode
        if episode is None or self.mode is Mode.PINNED:
            self._episode, self._manual = None, None
            return _nothing(now_s, f"the switch to {name} failed: {failure}")
        episode.trials.append(Trial(switch.target, None, now_s - switch.asked_s, f"the switch failed: {failure}"))
        return self._advance(now_s, snapshot, seen, episode)

    def _trying(self, now_s: float, snapshot: Snapshot, seen: Assessment, episode: Episode, step: Try) -> _Answer:
        elapsed_s = now_s - max(snapshot.stable_since_s, episode.began_s)
        situation = self._situation(episode.trigger, snapshot, seen)
        note = self._strategy.clear(situation, elapsed_s)
        if note is None and not _time_up(elapsed_s, step.limit_s, seen, self._settings.measuring):
            return _nothing(
                now_s, f"trying {step.composition.name}: {elapsed_s:.1f} of {step.limit_s:g} s; {seen.reason}"
            )
        self._strategy.learn(situation)
        episode.trials.append(Trial(step.composition, seen, elapsed_s, note or "time up"))
        return self._advance(now_s, snapshot, seen, episode)

    def _resting(self, now_s: float, snapshot: Snapshot, seen: Assessment, active: Composition) -> _Answer:
        if self.mode is Mode.PINNED or self.slo is None:
            return self._pinned(now_s, active)
        compared = self._outcomes.look(snapshot, seen)
        if compared is not None:
            self._strategy.learn(self._situation(compared.trigger, snapshot, seen))
        waits = unsure(self._stages, snapshot, self._settings.measuring) or self._watch.held(now_s)
        if waits is not None:
            return _nothing(now_s, waits)
        return self._decide(now_s, snapshot, seen, active)

    def _pinned(self, now_s: float, active: Composition) -> _Answer:
        """Nobody to decide for: only a request by hand moves anything."""
        self._state, target = State.STABLE, self._manual
        if self.mode is not Mode.PINNED:
            return _nothing(now_s, "no SLO set")
        if target is None or target.shape == active.shape:
            return _nothing(now_s, f"pinned to {active.name}")
        self._episode = Episode(Trigger.MANUAL, "requested by hand", now_s, active)
        self._episode.step = Settle(target, (), f"{target.name} was pinned")
        return self._command(now_s, target)

    def _decide(self, now_s: float, snapshot: Snapshot, seen: Assessment, active: Composition) -> _Answer:
        foresees = self._strategy.pace(self._settings).foresees
        due = self._due
        if due is None:
            looked = self._watch.look(snapshot, seen)
            if isinstance(looked, str):
                self._state = State.STABLE
                return _nothing(now_s, self._infeasible_reason(looked, seen))
            if looked.trigger is Trigger.INPUT_RATE and not foresees:
                self._due = looked
                return (ResetWindow(),), NoChange(now_s, f"{looked.reason}; measuring anew")
            due = looked
        if seen.meets is None and not foresees:
            return _nothing(now_s, seen.reason)
        return self._open(now_s, snapshot, seen, active, due)

    def _open(self, now_s: float, snapshot: Snapshot, seen: Assessment, active: Composition, due: Due) -> _Answer:
        """Begin a decision, unless the SLO is met and nothing less could do, or nothing has changed since the last."""
        self._due = None
        if due.trigger is Trigger.VIOLATION and self._infeasible is not None and self._watch.changed(snapshot) is None:
            self._state = State.STABLE
            return _nothing(now_s, self._infeasible)
        evidence = due.reason if due.trigger is Trigger.VIOLATION else f"{due.reason}; {seen.reason}"
        episode = Episode(due.trigger, evidence, now_s, active)
        if seen.meets is False:
            self._strategy.learn(self._situation(due.trigger, snapshot, seen))
        return self._advance(now_s, snapshot, seen, episode)

    def _advance(self, now_s: float, snapshot: Snapshot, seen: Assessment, episode: Episode) -> _Answer:
        """Ask the strategy for the next step of ``episode`` and carry it out."""
        situation = self._situation(episode.trigger, snapshot, seen)
        proposal = self._strategy.propose(situation, tuple(episode.trials))
        if isinstance(proposal, Stay):
            self._rest(snapshot)
            return _nothing(now_s, proposal.reason)
        episode.step = proposal
        if self.mode is Mode.OBSERVE:
            return self._observe(now_s, snapshot, episode, proposal)
        self._episode = episode
        if proposal.composition.shape != situation.active.shape:
            return self._command(now_s, proposal.composition)
        if isinstance(proposal, Settle):
            return self._close(now_s, snapshot, episode, proposal)
        self._state = State.TRIAL
        return _nothing(now_s, f"trying {proposal.composition.name}, which is active")

    def _command(self, now_s: float, target: Composition) -> _Answer:
        self._switch, self._state, self._failure = _Switch(target, now_s), State.SWITCHING, None
        return (SwitchTo(target),), NoChange(now_s, f"switching to {target.name}")

    def _close(self, now_s: float, snapshot: Snapshot, episode: Episode, step: Settle) -> _Answer:
        decision = episode.decision(self._next_id(), now_s, step.composition, step.reason)
        self._infeasible = f"infeasible: {step.reason}" if step.infeasible else None
        self._outcomes.await_(decision)
        self._rest(snapshot)
        return (), decision

    def _observe(self, now_s: float, snapshot: Snapshot, episode: Episode, step: Try | Settle) -> _Answer:
        """Say what would be done, once for the same advice."""
        self._rest(snapshot)
        last = self._observed
        if last is not None and last.to_name == step.composition.name and last.from_name == episode.origin.name:
            return _nothing(now_s, f"observing: decision {last.id} still holds")
        verb = "would try" if isinstance(step, Try) else "would choose"
        reason = f"{verb} {step.composition.name}: {step.reason}"
        self._observed = episode.decision(self._next_id(), now_s, step.composition, reason, acted=False)
        return (), self._observed

    def _rest(self, snapshot: Snapshot) -> None:
        self._episode, self._state = None, State.STABLE
        self._watch.rebase(snapshot)

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _renew(self, due: Due) -> None:
        """A request from outside: drop what was under way; a switch under way is let end first."""
        self._episode, self._due = None, due
        self._infeasible, self._observed = None, None

    def _next_id(self) -> int:
        self._count += 1
        return self._count

    def _situation(self, trigger: Trigger, snapshot: Snapshot, seen: Assessment) -> Situation:
        if self.objective is None or self._active is None:
            raise ManagerError("there is nothing to decide without an SLO and an active composition")
        return Situation(
            trigger,
            snapshot,
            self.objective,
            seen,
            self._active,
            self._compositions,
            self._settings,
            self._barred(snapshot.now_s),
        )

    def _barred(self, now_s: float) -> Mapping[str, str]:
        self._unavailable = {name: entry for name, entry in self._unavailable.items() if entry[0] > now_s}
        return {name: reason for name, (_, reason) in self._unavailable.items()}

    def _active_of(self, snapshot: Snapshot) -> Composition:
        if self._active is None or self._active.name != snapshot.composition:
            self._active = self._named(snapshot.composition)
        return self._active

    def _named(self, name: str) -> Composition:
        for composition in (*self._compositions, all_sequential(self._stages)):
            if composition.name == name:
                return composition
        known = ", ".join(composition.name for composition in self._compositions)
        raise ManagerError(f"unknown composition {name!r}; there are {known}")

    def _status(self, seen: Assessment) -> SloStatus:
        if self._infeasible is not None and seen.status is SloStatus.VIOLATED:
            return SloStatus.INFEASIBLE
        return seen.status

    def _infeasible_reason(self, reason: str, seen: Assessment) -> str:
        if seen.meets:
            self._infeasible = None
        return self._infeasible or reason


def _time_up(elapsed_s: float, limit_s: float, seen: Assessment, measuring: Measuring) -> bool:
    """A trial without enough samples is prolonged, but not for ever."""
    return elapsed_s >= limit_s and (seen.meets is not None or elapsed_s >= limit_s + measuring.patience_s)


def _nothing(now_s: float, reason: str) -> tuple[tuple[Command, ...], NoChange]:
    return (), NoChange(now_s, reason)
