"""Bodies of requests and answers. Requests refuse unknown fields; answers may grow new ones."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from control.decisions import CandidateStatus, Mode, State, Trigger
from profiler.slo import INPUT_RATE, Slo, SloStatus, Statistic
from service.bodies.spec import Frozen, InputSpec, Number, RunSpec, SinkSpec, SourceSpec

MAX_TARGET = 1e9
Name = Annotated[str, Field(min_length=1, max_length=200)]
Threshold = Annotated[Number, Field(ge=0, le=1, description="Ratio beyond the target that counts as a violation.")]


def _throughput_target(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TARGET
    if value != INPUT_RATE and not number:
        raise ValueError(f'must be items/s above 0 and at most {MAX_TARGET:.0e}, or "{INPUT_RATE}"')
    return float(value) if number else value


_TARGET_SCHEMA = {
    "anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TARGET}, {"type": "string", "const": INPUT_RATE}]
}
ThroughputTarget = Annotated[
    float | Literal["input_rate"], PlainValidator(_throughput_target), WithJsonSchema(_TARGET_SCHEMA)
]


class LatencySlo(Frozen):
    app: str
    metric: Literal["latency"]
    target: Annotated[Number, Field(gt=0, le=MAX_TARGET, description="Milliseconds.")]
    threshold: Threshold = 0.2
    statistic: Statistic = "mean"

    def slo(self) -> Slo:
        return Slo(self.metric, float(self.target), float(self.threshold), self.statistic)


class ThroughputSlo(Frozen):
    app: str
    metric: Literal["throughput"]
    target: ThroughputTarget
    threshold: Threshold = 0.2

    def slo(self) -> Slo:
        return Slo(self.metric, self.target, float(self.threshold))


SloRequest = Annotated[LatencySlo | ThroughputSlo, Field(discriminator="metric")]


class StartRequest(Frozen):
    """All fields have defaults: the app's own data set, unpaced, adapted by strategy ``model``."""

    options: dict[str, Any] = Field(default_factory=dict, description="The app's own options; see GET /apps.")
    source: SourceSpec = SourceSpec()
    sink: SinkSpec | None = Field(default=None, description="A table that Spark writes; null: results in the API only.")
    input: InputSpec = InputSpec()
    overload: Literal["block", "shed"] = "block"
    composition: str | None = Field(default=None, description="The first one; null: all stages sequential.")
    mode: Mode = Mode.AUTO
    strategy: Literal["model", "vogel", "pdp21", "static"] = "model"
    switch_style: Literal["seamless", "drain"] = "seamless"
    items: Annotated[int, Field(strict=True, gt=0, le=10**12)] | None = None
    duration_s: Annotated[Number, Field(gt=0, le=1e9)] | None = None

    def spec(self, app: str) -> RunSpec:
        return RunSpec(app=app, **{name: getattr(self, name) for name in type(self).model_fields})


class ModeRequest(Frozen):
    mode: Mode
    composition: str | None = Field(default=None, description="With mode pinned; null pins the active one.")


class Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


class Problem(Answer):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


class FieldError(Answer):
    loc: list[str | int]
    msg: str


class ValidationProblem(Problem):
    errors: list[FieldError]


class Group(Answer):
    stages: list[str]
    pattern: Literal["seq", "par"]
    replicas: int


class ActiveComposition(Answer):
    name: str
    notation: str
    workers: int
    groups: list[Group]


class Choice(ActiveComposition):
    app: str
    active: bool
    predicted_throughput_per_s: float | None
    predicted_latency_ms: float | None


class SloInForce(Answer):
    metric: Literal["latency", "throughput"]
    target: float | Literal["input_rate"]
    threshold: float
    statistic: Statistic | None = None
    bound: float | None


class StoredSlo(SloInForce):
    id: int
    app: str
    accepted_at: str


class StageStatus(Answer):
    name: str
    kind: str
    service_time_ms: float | None
    cpu_time_ms: float | None
    cv: float | None
    samples: int
    bottleneck: bool


class Latency(Answer):
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class Items(Answer):
    accepted: int
    delivered: int
    failed: int
    shed: int


class Drain(Answer):
    estimate_ms: float | None
    srtt_ms: float | None
    rttvar_ms: float | None
    last_actual_ms: float | None
    last_error_ratio: float | None
    count: int


class Worker(Answer):
    id: str
    pid: int
    node: str
    group: int | None
    outstanding: int
    restarts: int


class Candidate(Answer):
    name: str
    workers: int
    status: CandidateStatus
    reason: str
    predicted_throughput_per_s: float | None
    predicted_latency_ms: float | None
    measured_throughput_per_s: float | None
    measured_latency_ms: float | None


class Entry(Answer):
    """A decision, or (``kind`` no_change) a run of ticks that changed nothing for one reason."""

    kind: Literal["decision", "no_change"] | None = None
    id: int | None
    at: str
    trigger: Trigger | None
    from_: str | None = Field(alias="from")
    to: str | None
    reason: str
    candidates: list[Candidate]
    trials: int
    duration_s: float | None
    gap_ms: float | None
    drain_estimate_ms: float | None
    drain_actual_ms: float | None
    first_at: str | None = None
    last_at: str | None = None
    count: int | None = None


class Status(Answer):
    app: str
    state: State
    mode: Mode
    composition: ActiveComposition | None
    slo: SloInForce | None
    slo_status: SloStatus
    input_rate_per_s: float | None
    throughput_per_s: float | None
    latency_ms: Latency
    stages: list[StageStatus]
    queued: int
    in_flight: int
    items: Items
    drain: Drain
    workers: list[Worker]
    switches: int
    last_decision: Entry | None
    updated_at: str
    failure: str | None = None
    """Why it failed, or why its runner had to be started anew."""
    runner_restarts: int = 0


class StageInfo(Answer):
    name: str
    kind: str


class Sample(Answer):
    at: str
    composition: str | None
    slo_status: SloStatus
    slo: SloInForce | None
    input_rate_per_s: float | None
    throughput_per_s: float | None
    latency_ms: dict[str, float | None]
    """``mean`` and ``p95``."""
    service_time_ms: dict[str, float | None]
    """By stage."""


class Possibility(ActiveComposition):
    """A composition under other circumstances; null: not known, or (latency) without end."""

    active: bool
    predicted_throughput_per_s: float | None
    predicted_latency_ms: float | None
    predicted_p95_ms: float | None = None
    overloaded: bool | None = None
    limited_by: list[str] | None = None
    """Stages of the group with the least capacity, or ``cores``."""
    meets: bool | None = None


class WhatIf(Answer):
    app: str
    cores: int | None
    replicas: int | None
    input_rate_per_s: float | None
    choice: str | None
    """What the manager would do first."""
    reason: str
    compositions: list[Possibility]
    left_out: int


class AppInfo(Answer):
    name: str
    description: str
    stages: list[StageInfo]
    compositions: list[str]
    options: dict[str, Any]
    running: bool
    state: State


class Result(Answer):
    """With ``value``, or with ``error`` where a dead letter left its place."""

    serial: int
    value: Any = None
    error: str | None = None


class Accepted(Answer):
    serial: int
