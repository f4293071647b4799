"""Answer what-if questions: predict every composition under other conditions, and the manager's choice among them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, sqrt

from compositions.capacity.prediction import Prediction, Predictions
from compositions.model import Composition, Pattern
from control.assess import Assessment
from control.decisions import Trigger
from control.expect import Unmeasured, expect
from control.objectives.objective import Objective
from control.reading import needed_rate
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Stay, Strategy
from profiler.service_time import crowding, free_service_s
from profiler.snapshot import Demand, InputNow, Snapshot, StageProfile


@dataclass(frozen=True, slots=True)
class StageTime:
    """A stage's time per item in seconds: as measured, without other workers on its core, and its CPU time."""

    name: str
    measured_s: float
    free_s: float
    cpu_s: float


def crowd_of(snapshot: Snapshot) -> float:
    """Return the number of busy workers per core; 1 if the cores are not the limit."""
    return crowding(snapshot.stages, snapshot.cores)


def on_cores(snapshot: Snapshot, cores: float) -> Snapshot:
    """Return the snapshot for ``cores``: its times exclude crowding, because the model adds that of ``cores``."""
    return replace(snapshot, cores=cores, cores_left=None, stages=uncrowded(snapshot.stages, crowd_of(snapshot)))


def uncrowded(stages: Iterable[StageProfile], crowd: float) -> tuple[StageProfile, ...]:
    """Return the profiles without other workers on the cores and GPUs; the measured busy share is dropped."""
    return tuple(replace(p, service_time_s=free_service_s(p, crowd), busy=0.0, gpu_wait_s=0.0) for p in stages)


@dataclass(frozen=True, slots=True)
class Question:
    """The changed conditions of a what-if question; ``None``: as now."""

    cores: float | None = None
    replicas: int | None = None
    """Replicas of each parallel group."""
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Present:
    """The known state of the running app."""

    snapshot: Snapshot
    active: Composition
    compositions: tuple[Composition, ...]
    objective: Objective | None
    strategy: Strategy
    settings: Settings
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """As in ``Situation``, like ``generated``."""
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """One composition under the conditions of the question; ``None`` where the answer is unknown."""

    composition: Composition
    prediction: Prediction | None
    meets: bool | None
    active: bool
    worst: Prediction | None = None
    """Prediction with times as crowded as now, at the upper ends of the ranges of their means."""
    best: Prediction | None = None
    """Prediction without crowding, at the lower ends."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The answer to a question. ``options``: those that meet the objective first, then by workers and latency."""

    question: Question
    cores: float
    input_rate_per_s: float | None
    chosen: str | None
    reason: str
    options: tuple[Option, ...]
    crowding: float = 1.0
    """Present number of busy workers per core; 1 if the cores are not the limit."""
    stages: tuple[StageTime, ...] = ()


def outlook(question: Question, present: Present) -> Outlook:
    """Return the answer to ``question``; a copy of the app's strategy, with its knowledge, makes the choice."""
    asked = _changed(present, question)
    snapshot, predictions = asked.snapshot, expect(asked.compositions, asked.snapshot)
    if isinstance(predictions, Unmeasured):
        options = tuple(Option(each, None, None, each.name == asked.active.name) for each in asked.compositions)
        chosen, reason = None, f"stage {predictions.stage} was not measured yet"
    else:
        options = tuple(sorted(_options(asked, present.snapshot, predictions), key=_rank))
        chosen, reason = _chosen(asked)
    told = (question, snapshot.cores, snapshot.input_rate_per_s, chosen, reason, options)
    crowd, stages = crowd_of(present.snapshot), present.snapshot.stages
    times = (StageTime(p.name, p.service_time_s, free_service_s(p, crowd), p.cpu_time_s) for p in stages)
    return Outlook(*told, crowd, tuple(times))


def _options(asked: Present, measured: Snapshot, predictions: Predictions) -> Iterator[Option]:
    """Yield each composition's predictions: expected, worst and best, the latter two at the error bounds of times."""
    error = max((2 * p.cv / sqrt(max(p.samples, 1)) for p in measured.stages), default=0.0)
    crowded = replace(asked.snapshot, stages=tuple(replace(p, busy=0.0, gpu_wait_s=0.0) for p in measured.stages))
    free = replace(asked.snapshot, stages=uncrowded(measured.stages, crowd_of(measured)))
    worst = expect(asked.compositions, crowded, scale=1 + error)
    best = expect(asked.compositions, free, scale=max(0.1, 1 - error))
    assert not isinstance(worst, Unmeasured), "the same stages are measured"
    assert not isinstance(best, Unmeasured), "the same stages are measured"
    for each in zip(asked.compositions, predictions, worst, best, strict=True):
        yield _option(asked, *each)


def _changed(present: Present, question: Question) -> Present:
    """Return the present under the question's conditions: no backlog, and the same arrival pattern as now."""
    now = present.snapshot.demand
    nothing_waits = Demand(0, 0, 0, 0.0)
    demand = now and replace(nothing_waits, bundle_limit=now.bundle_limit, size_left_open=now.size_left_open)
    snapshot = replace(present.snapshot, queued=0, queued_change_per_s=None, demand=demand)
    if question.cores is not None:
        snapshot = on_cores(snapshot, question.cores)
    if question.rate_per_s is not None:
        snapshot = _at_rate(snapshot, question.rate_per_s)
    return replace(
        present,
        snapshot=snapshot,
        active=_resized(present.active, question.replicas),
        compositions=tuple(_resized(each, question.replicas) for each in present.compositions),
        generated=present.generated and question.replicas is None,
    )


def _at_rate(snapshot: Snapshot, rate_per_s: float) -> Snapshot:
    """Return the snapshot at another rate. At a lower rate bundles are smaller, as fewer items come while one fills."""
    share = min(1.0, rate_per_s / snapshot.input_rate_per_s) if snapshot.input_rate_per_s else 1.0
    stages = tuple(replace(each, bundle_items=max(1.0, share * each.bundle_items)) for each in snapshot.stages)
    windows = tuple(replace(w, rate_per_s=rate_per_s) for w in snapshot.input_rate_windows)
    return replace(snapshot, input_rate_per_s=rate_per_s, input=InputNow(windows), stages=stages)


def _resized(composition: Composition, replicas: int | None) -> Composition:
    if replicas is None or composition.dyn is not None:  # workers are shared, so groups have no replicas of their own
        return composition
    groups = (replace(each, replicas=replicas) if each.pattern is Pattern.PAR else each for each in composition.groups)
    return replace(composition, groups=tuple(groups))


def _option(
    asked: Present, composition: Composition, prediction: Prediction, worst: Prediction, best: Prediction
) -> Option:
    active = composition.name == asked.active.name
    if asked.objective is None:
        return Option(composition, prediction, None, active, worst, best)
    room = asked.objective.room(prediction.throughput_per_s, prediction.at, needed_rate(asked.snapshot))
    return Option(composition, prediction, None if room is None else room >= 0, active, worst, best)


def _rank(option: Option) -> tuple[bool, int, float]:
    latency_s = option.prediction.latency_s if option.prediction else None
    return option.meets is False, option.composition.workers, inf if latency_s is None else latency_s


def _chosen(asked: Present) -> tuple[str | None, str]:
    """Return the strategy's first choice. A copy of the app's strategy is asked, so the app is not affected."""
    if asked.objective is None:
        return None, "no SLO is set, so no composition can be chosen"
    unknown = Assessment.unknown("no measurements exist for these circumstances")
    situation = Situation(
        Trigger.INPUT_RATE,
        asked.snapshot,
        asked.objective,
        unknown,
        asked.active,
        asked.compositions,
        asked.settings,
        asked.unavailable,
        asked.objective.slo.limits,
        asked.generated,
    )
    strategy = asked.strategy.supposing(asked.snapshot.input_rate_per_s)
    proposal = strategy.propose(situation, ())
    name = asked.active.name if isinstance(proposal, Stay) else proposal.composition.name
    return name, proposal.reason
