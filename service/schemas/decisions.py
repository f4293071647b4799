"""Decisions, series of "no change", changes of the bundle size, and switches, as the service stores and shows them."""

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field

from compositions.model import TransitionKind
from control import decisions as control
from control.decisions import CandidateStatus, Trigger
from control.journal import NoChangeRun, SwitchRecord
from service.schemas.base import Answer, Clock, Time, read_time, rounded
from service.schemas.compositions import SizeChange
from service.schemas.spec import RunSpec


class Candidate(Answer):
    name: str
    workers: int
    status: CandidateStatus
    reason: str
    predicted_throughput_per_s: float | None
    predicted_latency_ms: float | None
    measured_throughput_per_s: float | None
    measured_latency_ms: float | None
    predicted_in_time: float | None = None
    """Predicted share of the items within the objective's time, from 0 to 1."""
    predicted_in_time_at_least: float | None = None
    """Value that this share exceeds in nine of ten cases, judged by the outcomes so far; null before nine are known."""
    measured_in_time: float | None = None
    transition: TransitionKind | None = None
    """Kind of change that leads there; null for the active composition, and if it is not known."""
    transition_ms: float | None = None

    @classmethod
    def of(cls, candidate: control.Candidate) -> Self:
        return cls.taken_from(candidate, predicted_in_time_at_least=rounded(candidate.in_time_at_least))


class Decision(Answer):
    """A decision. ``infeasible``: no known composition can meet the SLO; ``to`` is the best one found."""

    id: int
    at: Time
    trigger: Trigger
    from_: str = Field(validation_alias="from", serialization_alias="from")
    to: str
    reason: str
    candidates: list[Candidate]
    trials: int
    duration_s: float
    infeasible: bool = False
    acted: bool = True
    """False in observe mode: the decision says what the manager would have done."""
    gap_ms: float | None
    drain_estimate_ms: float | None
    drain_actual_ms: float | None
    transition: TransitionKind | None = None
    """``resize``: other numbers of replicas, in place; ``switch``: other groups, with a drain; null: no change."""
    outcome: str | None = None
    """Result of the decision: the prediction compared with the measurement once the window was full."""
    kind: Literal["decision"] = "decision"
    """Kind of the entry; in ``GET /decisions``, which has other kinds too."""
    run: str | None = None
    """Run in which the decision was made; null if it was not recorded."""

    @classmethod
    def of(cls, decision: control.Decision, at: Clock, run: str | None) -> Self:
        return cls.taken_from(
            *(decision, decision.handover),
            at=at(decision.at_s),
            from_=decision.from_name,
            to=decision.to_name,
            candidates=[Candidate.of(candidate) for candidate in decision.candidates],
            duration_s=round(decision.duration_s, 3),
            run=run,
        )

    def listed(self) -> Self:
        """Return the decision for a list of entries, with its kind."""
        return self.model_copy(update={"kind": "decision", "run": self.run})

    @classmethod
    def to_start_again(cls, number: int, at: str, spec: RunSpec) -> Self:
        """Return the service's decision to replace the first runner of ``spec``."""
        return cls(
            id=number,
            at=at,
            trigger=Trigger.FAILURE,
            from_=spec.begins_with,
            to=spec.begins_with,
            reason=f"the runner was started again: {spec.origin.started_again}",
            candidates=[],
            trials=0,
            duration_s=0.0,
            gap_ms=None,
            drain_estimate_ms=None,
            drain_actual_ms=None,
            run=spec.origin.run,
        )


class QuietRun(Answer):
    """Successive turns of the manager that changed nothing, for the same reason."""

    reason: str
    first_at: Time
    last_at: Time
    count: int
    run: str | None = None

    @classmethod
    def of(cls, quiet: NoChangeRun, at: Clock, run: str | None) -> Self:
        return cls.taken_from(quiet, first_at=at(quiet.first_at_s), last_at=at(quiet.last_at_s), run=run)


class _Undecided(Answer):
    """Fields of a decision that other entries do not have."""

    id: None
    trigger: None
    duration_s: None
    gap_ms: None
    drain_estimate_ms: None
    drain_actual_ms: None
    at: Time
    """Time of the last turn."""
    candidates: list[Candidate]
    trials: int


_NOTHING = dict.fromkeys(("id", "trigger", "duration_s", "gap_ms", "drain_estimate_ms", "drain_actual_ms"))


class NoChange(QuietRun, _Undecided):
    """A series of "no change" in a list of decisions, with the fields of a decision."""

    from_: None = Field(validation_alias="from", serialization_alias="from")
    to: None
    kind: Literal["no_change"]

    @classmethod
    def listed(cls, run: QuietRun) -> Self:
        return cls.model_validate({**_listed(run, run.last_at), "from": None, "to": None, "kind": "no_change"})


class Resized(SizeChange, _Undecided):
    """Changes of bundle sizes in a list of decisions, with a decision's fields; ``from`` and ``to`` count items."""

    kind: Literal["batching"]

    @classmethod
    def listed(cls, changes: SizeChange) -> Self:
        return cls.model_validate({**_listed(changes, changes.last_at), "kind": "batching"})


def _listed(body: Answer, at: str) -> dict[str, object]:
    return {**dict(body), **_NOTHING, "at": at, "candidates": [], "trials": 0}


Entry = Decision | NoChange | Resized
EntryKind = Literal["decision", "no_change", "batching"]
KINDS: tuple[EntryKind, ...] = ("decision", "no_change", "batching")


def history_of(
    decisions: Iterable[Decision], runs: Iterable[QuietRun], sizes: Iterable[SizeChange], limit: int
) -> list[Entry]:
    """Return the newest ``limit`` entries, newest first; entries of one instant stay together on a page."""
    entries: list[Entry] = [each.listed() for each in decisions]
    entries += [NoChange.listed(run) for run in runs]
    entries += [Resized.listed(changes) for changes in sizes]
    entries.sort(key=lambda entry: (read_time(entry.at), entry.id or 0), reverse=True)
    whole = limit
    while len(entries) > limit and whole > 0 and entries[whole - 1].at == entries[limit].at:
        whole -= 1
    return entries[: whole or limit]


class Switch(Answer):
    """A switch or a resize that ended: its expected and its actual course."""

    at: Time
    from_: str = Field(validation_alias="from", serialization_alias="from")
    to: str
    style: Literal["seamless", "drain"]
    gap_ms: float | None
    """Time from the old composition's last delivery to the new one's first; null until then."""
    longest_gap_ms: float | None
    drain_mean_ms: float | None
    drain_estimate_ms: float | None
    drain_actual_ms: float | None
    overdue: bool
    migrated: int
    """Items that were moved to the new composition."""
    error: str | None
    transition: TransitionKind = TransitionKind.SWITCH

    @classmethod
    def of(cls, record: SwitchRecord, at: Clock) -> Self:
        ended = record.ended
        assert ended is not None, "the journal notes a switch when it has ended"
        way = {"from_": ended.from_name, "to": ended.to_name, "style": ended.style.value, "transition": ended.kind}
        return cls.taken_from(record, ended, at=at(ended.at_s), **way)
