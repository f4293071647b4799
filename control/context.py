"""The manager's context: the objects that its phases share and that outlive a phase."""

from dataclasses import dataclass

from compositions.model import Composition, TransitionKind
from control.choices import Choices, ManagerError
from control.decision_log import DecisionLog, Hindsight
from control.decisions import Trigger
from control.observation import Backlog, Observation
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Strategy
from control.watch import Due, Watch
from profiler.snapshot import Announcement


@dataclass(slots=True)
class ManagerContext:
    """The objects that the phases share. ``due`` and ``pin`` are pending requests."""

    settings: Settings
    strategy: Strategy
    choices: Choices
    watch: Watch
    backlog: Backlog
    hindsight: Hindsight
    log: DecisionLog
    due: Due | None
    """A decision that was requested and has not begun."""
    pin: Composition | None = None
    """Composition that a user pinned; ``None``: the active one stays."""
    announced: tuple[Announcement, ...] = ()
    """Loads that users have announced."""
    ended_by_due: str | None = None
    """Clause about the switch that was cancelled for the request in ``due``; added to the next decision's reason."""

    @classmethod
    def opened(cls, settings: Settings, strategy: Strategy, choices: Choices) -> "ManagerContext":
        """Return the context of an app that starts: its first decision is due once its stages are measured."""
        watch, hindsight = Watch(settings.rhythm, strategy.pace(settings)), Hindsight(settings.measuring.outcome_s)
        started = Due(Trigger.START, "the app started")
        return cls(settings, strategy, choices, watch, Backlog(), hindsight, DecisionLog(), started)

    def ask(self, trigger: Trigger, reason: str) -> None:
        """Request a new decision, and forget the findings for the old one."""
        self.due = Due(trigger, reason)
        self.ended_by_due = None
        self.log.forget()

    def evidence(self, reason: str) -> str:
        """Return a decision's reason, with the switch that was cancelled for it."""
        told, self.ended_by_due = self.ended_by_due, None
        return reason if told is None else f"{reason}; {told}"

    def transition(self, origin: Composition, target: Composition) -> TransitionKind:
        """Return the kind of the change from ``origin`` to ``target``."""
        return self.settings.style.transition(origin, target)

    def situation(self, observed: Observation, trigger: Trigger) -> Situation:
        """Return the information for the strategy. Raises: ManagerError without an objective."""
        objective = observed.aim.objective
        if objective is None:
            raise ManagerError("no SLO is set, so there is nothing to decide; set one")
        return Situation(
            trigger,
            observed.snapshot,
            objective,
            observed.seen,
            self.choices.active,
            self.choices.compositions,
            self.settings,
            self.choices.unavailable(observed.snapshot.now_s),
            objective.slo.limits.within(self.choices.granted),
            self.choices.generated,
            tuple(each for each in self.announced if each.until_s > observed.now_s),
            self.choices.room,
        )

    def hold(self, now_s: float, reason: str) -> None:
        """Pause decisions after a switch, because the first results include the wait in the old composition."""
        self.watch.hold(now_s + self.settings.rhythm.cool_down_s, reason)
