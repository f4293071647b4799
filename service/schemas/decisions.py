"""Decisions, runs of "no change", changes of the bundle size, and switches, as they are shown and stored."""

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
    """Share of the items within the objective's time, 0 … 1."""
    predicted_in_time_at_least: float | None = None
    """What that share will not be below nine times of ten, by the outcomes so far; null before nine are known."""
    measured_in_time: float | None = None
    transition: TransitionKind | None = None
    """What it takes to get there; null for the active one, and where nobody asked."""
    transition_ms: float | None = None

    @classmethod
    def of(cls, candidate: control.Candidate) -> Self:
        return cls.taken_from(candidate, predicted_in_time_at_least=rounded(candidate.in_time_at_least))


class Decision(Answer):
    """``infeasible``: no known composition can meet the SLO here; ``to`` is the best one found."""

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
    """False in observe mode: the decision says what would have been done."""
    gap_ms: float | None
    drain_estimate_ms: float | None
    drain_actual_ms: float | None
    transition: TransitionKind | None = None
    """``resize``: numbers of replicas, in place; ``switch``: other groups, with a drain; null where it stays."""
    outcome: str | None = None
    """What came of it: the prediction against what was measured once the window was full."""
    kind: Literal["decision"] = "decision"
    """In ``GET /decisions``, where the other kind is there too."""
    run: str | None = None
    """In which it was made; null where that was not noted."""

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
        """Among others, where its kind is told."""
        return self.model_copy(update={"kind": "decision", "run": self.run})

    @classmethod
    def to_start_again(cls, number: int, at: str, spec: RunSpec) -> Self:
        """Return the service's decision to give ``spec`` another runner than its first one."""
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
    """Turns of the manager, one after the other, that changed nothing for one reason."""

    reason: str
    first_at: Time
    last_at: Time
    count: int
    run: str | None = None

    @classmethod
    def of(cls, quiet: NoChangeRun, at: Clock, run: str | None) -> Self:
        return cls.taken_from(quiet, first_at=at(quiet.first_at_s), last_at=at(quiet.last_at_s), run=run)


class _Undecided(Answer):
    """The fields of a decision that an entry which is none has not."""

    id: None
    trigger: None
    duration_s: None
    gap_ms: None
    drain_estimate_ms: None
    drain_actual_ms: None
    at: Time
    """The last time."""
    candidates: list[Candidate]
    trials: int


_NOTHING = dict.fromkeys(("id", "trigger", "duration_s", "gap_ms", "drain_estimate_ms", "drain_actual_ms"))


class NoChange(QuietRun, _Undecided):
    """A run of "no change" among decisions, with the fields of one."""

    from_: None = Field(validation_alias="from", serialization_alias="from")
    to: None
    kind: Literal["no_change"]

    @classmethod
    def listed(cls, run: QuietRun) -> Self:
        return cls.model_validate({**_listed(run, run.last_at), "from": None, "to": None, "kind": "no_change"})


class Resized(SizeChange, _Undecided):
    """Changes of bundle sizes among decisions, with the fields of one; ``from`` and ``to`` count items."""

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
    """The newest ``limit``, newest first; those of one instant stay together, so that who reads on misses none."""
    entries: list[Entry] = [each.listed() for each in decisions]
    entries += [NoChange.listed(run) for run in runs]
    entries += [Resized.listed(changes) for changes in sizes]
    entries.sort(key=lambda entry: (read_time(entry.at), entry.id or 0), reverse=True)
    whole = limit
    while len(entries) > limit and whole > 0 and entries[whole - 1].at == entries[limit].at:
        whole -= 1
    return entries[: whole or limit]


class Switch(Answer):
    """A switch or a resize that ended: what was expected of it, and how it went."""

    at: Time
    from_: str = Field(validation_alias="from", serialization_alias="from")
    to: str
    style: Literal["seamless", "drain"]
    gap_ms: float | None
    """The old composition's last delivery to the new one's first; null until that came."""
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
