"""The manager: snapshots in, commands and decisions out. A state machine without clock, chance or I/O.

:mod:`control.phases` has its phases, and :mod:`control.phases.transitions` the order in which they follow. The strategy
proposes compositions; :mod:`control.watch` decides when to ask it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from compositions.model import Composition
from control.arbitration.arbiter import Bid, Reach
from control.choices import Choices, ManagerError
from control.context import ManagerContext
from control.decisions import Command, Decision, Grant, Mode, NoChange, State, Trigger
from control.objectives import Objective, objective_of
from control.observation import Aim, Observation, observe
from control.phases.switching import Switching
from control.phases.transitions import after, dropped, failed
from control.phases.transitions import first as first_phase
from control.settings import Settings
from control.strategies.base import Limits, Strategy
from profiler.slo import Slo, SloStatus
from profiler.snapshot import Announcement, Snapshot


@dataclass(frozen=True, slots=True)
class TickResult:
    """The result of one tick: commands to carry out, a decision or the reason for none, and the state."""

    commands: tuple[Command, ...]
    decision: Decision | NoChange
    state: State
    slo_status: SloStatus


class Manager:
    """The manager of one app."""

    def __init__(
        self, settings: Settings, strategy: Strategy, choices: Choices, mode: Mode = Mode.AUTO, slo: Slo | None = None
    ) -> None:
        self._aim = Aim(None if slo is None else objective_of(slo, settings.measuring.latency_from), mode)
        self._context = ManagerContext.opened(settings, strategy, choices)
        self._phase = first_phase(hands_off=self._aim.hands_off)
        self._observed: Observation | None = None
        """The latest observation; None before the first tick."""

    @property
    def mode(self) -> Mode:
        return self._aim.mode

    @property
    def objective(self) -> Objective | None:
        return self._aim.objective

    @property
    def choices(self) -> Choices:
        return self._context.choices

    @property
    def slo(self) -> Slo | None:
        """The objective as the user set it."""
        return None if self.objective is None else self.objective.slo

    # --- events -----------------------------------------------------------------------------------------------------

    def set_slo(self, slo: Slo | None) -> None:
        """Replace the objective; a decision in progress for the old one is dropped."""
        counts_from = self._context.settings.measuring.latency_from
        self._aim = replace(self._aim, objective=None if slo is None else objective_of(slo, counts_from))
        self._renew(Trigger.SLO, "the SLO was set" if slo else "the SLO was removed")

    def set_compositions(self, compositions: Iterable[Composition]) -> None:
        """Replace the list of compositions."""
        self._context.choices.compositions = tuple(compositions)
        self._context.choices.generated = False
        self._renew(Trigger.COMPOSITIONS, "the compositions were changed")

    def set_mode(self, mode: Mode, composition: str | None = None) -> None:
        """Change the mode. ``composition``: the one to pin; None: the active one.

        Raises: ManagerError if ``composition`` is not known, or is given in another mode than ``pinned``.
        """
        if composition is not None and mode is not Mode.PINNED:
            raise ManagerError(f"mode {mode} accepts no composition; use mode pinned for {composition!r}")
        self._context.pin = None if composition is None else self._context.choices.named(composition)
        self._aim = replace(self._aim, mode=mode)
        self._renew(Trigger.MANUAL, f"the mode was set to {mode}")

    def grant(self, grant: Grant | None) -> None:
        """Set the app's share of the machine; ``None``: no budget limits it. If the share changed, a decision becomes
        due; it also cancels a switch in progress to a composition that is too large for the share."""
        before, self._context.choices.grant = self._context.choices.granted, grant
        if self._context.choices.granted == before:
            return
        if self._aim.hands_off:
            return
        reason = "no budget limits the app any more" if grant is None else grant.reason
        if self._observed is None:
            self._context.ask(Trigger.START, f"the app started; {reason}")
        else:
            self._context.ask(Trigger.BUDGET, reason)

    def bid(self, limits: Limits) -> Bid:
        """Return how well the objective would be met within each of ``limits``."""
        choices = self._context.choices
        takes_part = self._aim.objective is not None and self.mode is Mode.AUTO and self._context.strategy.several
        reach = self._reaches(limits) if takes_part else None
        return Bid(reach, takes_part, choices.in_use, choices.grant)

    @property
    def granted(self) -> Grant | None:
        """The app's share of the machine, set by the arbiter."""
        return self._context.choices.grant

    def announce(self, announcements: Iterable[Announcement]) -> None:
        """Replace all planned loads."""
        self._context.announced = tuple(announcements)

    def switch_failed(self, reason: str, *, called_off: bool = False, target: str | None = None) -> None:
        """Record that a switch ended with an error; the old composition is still running. ``called_off``: True if the
        manager cancelled it. ``target``: name of its target; ignored if a newer resize has replaced the switch."""
        if self.gave_way(target):
            return
        self._phase = failed(self._phase, reason, called_off=called_off, hands_off=self._aim.hands_off)

    def gave_way(self, target: str | None) -> bool:
        """Return True if a newer resize, to another composition, has replaced the one to ``target``."""
        return isinstance(self._phase, Switching) and target not in (None, self._phase.target.name)

    def workers_lost(self, now_s: float, reason: str) -> None:
        """Record that workers died: until they are replaced, measurements do not count against the composition."""
        recovered_s = now_s + self._context.settings.rhythm.recovery_s
        self._context.watch.hold(recovered_s, f"a worker was lost ({reason})")

    def workers_placed(self, now_s: float, name: str, reason: str) -> Decision:
        """Return the pool's decision to replace workers of the composition called ``name``."""
        return self._context.log.placed(now_s, name, reason)

    def hindsights(self) -> tuple[Decision, ...]:
        """Return the decisions whose outcome became known since the last call, with ``outcome`` filled in."""
        return self._context.hindsight.taken()

    # --- the tick ---------------------------------------------------------------------------------------------------

    def tick(self, now_s: float, snapshot: Snapshot) -> TickResult:
        """Process one snapshot. Snapshots come in order; a command is carried out before the tick after next begins."""
        observed = observe(now_s, snapshot, self._aim, self._context.backlog, self._context.settings.measuring)
        self._context.strategy.observe(observed.snapshot, observed.aim.objective, self._context.choices.stages)
        answer = self._phase.step(observed, self._context)
        self._observed = observed
        self._phase = after(self._phase, answer.move, hands_off=self._aim.hands_off)
        status = self._context.log.status(observed.seen)
        return TickResult(answer.commands, answer.said, self._phase.label, status)

    def _reaches(self, limits: Limits) -> tuple[Reach, ...] | None:
        """Return how well the objective would be met within each of ``limits``; ``None`` if unknown now."""
        observed = self._observed
        if observed is None or observed.aim.hands_off or observed.snapshot.switching:
            return None
        return self._context.strategy.reaches(self._context.situation(observed, Trigger.BUDGET), limits)

    def _renew(self, trigger: Trigger, reason: str) -> None:
        """Request a new decision and drop the one in progress, because of a request from outside."""
        self._context.ask(trigger, reason)
        self._phase = dropped(self._phase, hands_off=self._aim.hands_off)
