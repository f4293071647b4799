"""The manager's context: the parts that outlive a phase, each with one responsibility."""

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
    """``due`` and ``pin`` are what is waiting to be dealt with; the rest works on it."""

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
    """Composition that a user requested; ``None``: the active one stays."""
    announced: tuple[Announcement, ...] = ()
    """Loads that users have announced."""
    ended_by_due: str | None = None
    """The switch or resize that was called off for the question in ``due``, as a clause; told with the answer."""

    @classmethod
    def opened(cls, settings: Settings, strategy: Strategy, choices: Choices) -> "ManagerContext":
        """As it is when an app starts: the first decision is due as soon as its stages are known."""
        watch, hindsight = Watch(settings.rhythm, strategy.pace(settings)), Hindsight(settings.measuring.outcome_s)
        started = Due(Trigger.START, "the app started")
        return cls(settings, strategy, choices, watch, Backlog(), hindsight, DecisionLog(), started)

    def ask(self, trigger: Trigger, reason: str) -> None:
        """A request from outside: the question is a new one."""
        self.due = Due(trigger, reason)
        self.ended_by_due = None
        self.log.forget()

    def evidence(self, reason: str) -> str:
        """Return what sets a decision off, with what was called off for it."""
        told, self.ended_by_due = self.ended_by_due, None
        return reason if told is None else f"{reason}; {told}"

    def transition(self, origin: Composition, target: Composition) -> TransitionKind:
        """Return what it takes to go from one to the other."""
        return self.settings.style.transition(origin, target)

    def situation(self, observed: Observation, trigger: Trigger) -> Situation:
        """Return what the strategy may look at. Raises: ManagerError without an objective."""
        objective = observed.aim.objective
        if objective is None:
            raise ManagerError("there is nothing to decide without an SLO")
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
        """A switch has just ended: judge nothing while the first results still carry the old composition's wait."""
        self.watch.hold(now_s + self.settings.rhythm.cool_down_s, reason)
