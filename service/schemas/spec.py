"""The spec of a run: one set of models for start body, command line and runner; nested by topic, flat in JSON."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from compositions.batch_settings import BatchSettings
from compositions.batching import MOST_BYTES, MOST_ITEMS, MOST_LINGER_MS, SETTINGS, Asked, Batching, setting_faults
from compositions.model import Composition
from compositions.settings import plain, ranges
from control.decisions import Mode
from control.strategies import DEFAULT
from datapipe.sink_kinds import KINDS as SINKS
from datapipe.sink_kinds import KindName as SinkName
from datapipe.source_kinds import KINDS, KindName, SourceKind
from datapipe.sources.rate_spec import RateSpec
from profiler.slo import Slo
from profiler.snapshot import Announcement
from runtime.dispatch.events import SwitchStyle
from service.schemas.base import FlatOnTheWire, Topic


def new_run() -> str:
    """Sorts by the second of its making (UTC), and is unique."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"


Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
"""A JSON number: no text, no boolean, no infinity."""


def whole(value: object) -> object:
    """JSON knows one kind of numbers: 237.0 is 237."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(whole)


def saying(what: str) -> WrapValidator:
    """Return a validator that says in one sentence what would be accepted, instead of one for each part of a union."""

    def validate(value: object, accept: ValidatorFunctionWrapHandler) -> object:
        try:
            return accept(value)
        except ValidationError as error:
            raise ValueError(f"must be {what}") from error

    return WrapValidator(validate)


class Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class SourceSpec(Frozen):
    """The source of items."""

    kind: KindName = "replay"
    path: str | None = None
    """Files of the user; None for the app's own data set. For ``video`` a file, the number of a camera, or a URL; for
    ``spark`` what its format loads, where that takes a path."""
    loop: Annotated[bool, Field(strict=True)] = True
    """Over and over; for ``spark``: wait for more, instead of ending when all that is there was read."""
    format: str | None = None
    """Of ``spark``: csv, json, parquet, kafka, rate …, whatever Structured Streaming reads."""
    options: dict[str, str | bool | int | Number] = Field(default_factory=dict)
    """Of that format; ``schema`` among them is a DDL string."""
    transform: str | None = None
    """Of ``spark``: a file with an SQL query over the view ``input``, whose rows are the items."""
    checkpoint: str | None = None
    """Of ``spark``: folder that keeps how far was read; None: in the folder of a Spark sink, else nowhere."""

    def looping(self, loop: bool) -> Self:
        """Return a copy that is read once or over and over."""
        return self.model_copy(update={"loop": loop})

    @property
    def fault(self) -> str | None:
        """Reason why the fields do not fit together, which no schema can say; None if they do."""
        return self.of.fault(self.model_dump())

    @property
    def of(self) -> SourceKind:
        return KINDS[self.kind]


class SinkSpec(Frozen):
    """A destination of results besides the window that the API shows."""

    kind: SinkName = "spark"
    format: Literal["parquet", "orc", "json", "csv"] = "parquet"
    path: str = Field(min_length=1)
    """Folder of the table, or its URL; of ``sql`` the URL of the database, as SQLAlchemy takes it; of ``redis``,
    ``kafka``, ``nats``, ``mqtt``, ``rabbitmq`` and ``webhook`` where it is."""
    schema_: str | None = Field(default=None, alias="schema")
    """Fields of a result as a DDL string; None: one column with JSON."""
    options: dict[str, str | bool | int | Number] = Field(default_factory=dict)
    """Of the format's writer; of ``sql`` ``table``; of ``webhook`` ``authorization``; of ``kafka`` librdkafka's."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @property
    def fault(self) -> str | None:
        """Reason why the fields do not fit together; None if they do."""
        if self.kind == "spark":
            return None
        for field, name in (("format", "format"), ("schema_", "schema")):
            if field in self.model_fields_set:
                return f"{name} goes with sink kind spark only, not with {self.kind}"
        return SINKS[self.kind].fault(self.options)


PatternName = Literal["wave", "binary", "increasing", "decreasing", "spike", "trace"]
Own = Annotated[str, Field(pattern=r"^custom:[A-Za-z_]\w*:[A-Za-z_]\w*$")]
Pattern = Annotated[PatternName | Own | None, saying(f"{', '.join(get_args(PatternName))} or custom:MODULE:FUNCTION")]
"""One of those; or a function in a module of the apps' folders, from elapsed seconds to items/s."""


class InputSpec(Frozen):
    """Input rate: fixed, by pattern (SPBench, section 3.3), from a trace file, or (nothing given) unpaced."""

    rate_per_s: Number | None = Field(default=None, gt=0, le=1_000_000)
    pattern: Pattern = None
    period_s: Number | None = Field(default=None, gt=0)
    min_per_s: Number | None = Field(default=None, ge=0)
    max_per_s: Number | None = Field(default=None, gt=0)
    size_percent: Number = Field(default=10.0, gt=0, le=100)
    path: str | None = None
    """Trace file: one arrival time in seconds a line, compressed to ``period_s``."""

    @property
    def rate(self) -> RateSpec:
        return RateSpec(**self.model_dump())

    @property
    def is_paced(self) -> bool:
        return self.rate_per_s is not None or self.pattern is not None


Count = Annotated[int, Field(strict=True, ge=1, le=MOST_ITEMS), WHOLE]
CountOrAuto = Annotated[Count | Literal["auto"], saying(f'"auto", or a whole number from 1 to {MOST_ITEMS:,}')]


def _settings(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"must be an object with some of {', '.join(SETTINGS)}")
    usual = plain(BatchSettings())
    told = {name: whole(each) if isinstance(usual.get(name), int) else each for name, each in value.items()}
    found = setting_faults(told)
    if found:
        raise ValueError("; ".join(found))
    return told


def _settings_schema() -> dict[str, Any]:
    usual, least_most = plain(BatchSettings()), ranges(BatchSettings())
    properties = {
        name: {
            "type": "integer" if isinstance(usual[name], int) else "number",
            "default": usual[name],
            **dict(zip(("minimum", "maximum"), least_most[name], strict=True)),
        }
        for name in SETTINGS
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


Settings = Annotated[dict[str, Any], PlainValidator(_settings), WithJsonSchema(_settings_schema())]


class BatchingSpec(Frozen):
    """The bundle size: a bundle is closed by count, bytes or age, whichever comes first."""

    items: CountOrAuto = "auto"
    """``auto``: one while a hop is cheap against the work, more where it shows."""
    bytes: Annotated[int, Field(strict=True, ge=1, le=MOST_BYTES), WHOLE] = 4 * 2**20
    linger_ms: Number = Field(default=0.0, ge=0, le=MOST_LINGER_MS)
    """How long the first item may wait for others that are not due yet."""
    controller: Asked | None = None
    """Who chooses the size; null: ``fixed`` where items are given, else ``auto``."""
    settings: Settings = Field(default_factory=dict)
    """Of the controller; what is left out is as usual."""

    @property
    def batching(self) -> Batching:
        """Raises: SettingsError when items, controller and settings do not go together."""
        items = None if self.items == "auto" else self.items
        return Batching(items, self.bytes, float(self.linger_ms)).controlled(self.controller, self.settings)


class TelemetrySpec(Frozen):
    """Rolling Parquet files of items, snapshots, decisions and switches, and how many of an app may stay."""

    folder: str
    keep_days: float = 7.0
    keep_mb: float = 1000.0


class PlannedLoad(Frozen):
    """A load that is to come, as somebody said; seconds since 1970."""

    from_epoch_s: Number
    until_epoch_s: Number
    rate_per_s: Annotated[Number, Field(gt=0)]

    def on_clock(self, epoch_s: float) -> Announcement:
        """Return the same load on a clock that was 0 at ``epoch_s``, in seconds since 1970."""
        return Announcement(self.from_epoch_s - epoch_s, self.until_epoch_s - epoch_s, self.rate_per_s)


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """The place of a run among the runs of an app."""

    run: str | None = None
    """Identifier of the run, which its serial numbers belong to; None: the runner makes one."""
    epoch: int = 1
    """Number of the runner since the start of the app, from 1."""
    started_again: str | None = None
    """Reason for another runner than the first one."""
    kept_up: bool = False
    """True if a service runs it: temporary failures, such as a machine too busy to start workers, are waited out."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a run, and the files that it leaves."""

    items: int | None = None
    """Number of items after which the run ends; None: it ends with the source, or never."""
    duration_s: float | None = None
    out_path: str | None = None
    dead_letters_path: str | None = None
    telemetry: TelemetrySpec | None = None


DurabilityName = Literal["none", "restart", "exactly-once"]


@dataclass(frozen=True, slots=True)
class Durable:
    """The data that outlives the runner."""

    durability: DurabilityName = "none"
    """``restart``: pushed items, the position in the source and states are stored; results since the last commit may be
    delivered again. ``exactly-once``: results are stored too."""
    journals: str | None = None
    journal_sync: bool = True
    """A commit waits for the disk. False: a crash of a process loses nothing, a power failure the last moments."""


@dataclass(frozen=True, slots=True)
class Method:
    """The way in which the manager adapts the app."""

    strategy: str = DEFAULT
    switch_style: SwitchStyle | None = None
    """How one composition follows another; None: as the strategy has it."""
    latency_from: Literal["due", "read"] | None = None
    """Start of an item's latency for the SLO: when it was due, or read (as in the papers); None: the strategy's."""


class RunSpec(FlatOnTheWire, Frozen):
    """Everything a runner needs; picklable."""

    app: str
    apps_dirs: tuple[str, ...] = ()
    options: dict[str, Any] = Field(default_factory=dict)
    source: SourceSpec = SourceSpec()
    sink: SinkSpec | None = None
    input: InputSpec = InputSpec()
    batching: BatchingSpec = BatchingSpec()
    overload: Literal["block", "shed"] = "block"
    compositions: tuple[Composition, ...] = ()
    composition: str | None = None
    """First (or pinned) composition; None: all stages sequential."""
    slo: Slo | None = None
    mode: Mode = Mode.AUTO
    announced: tuple[PlannedLoad, ...] = ()
    pool: Literal["local", "ray"] = "ray"
    resources: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """What stages ask for, by stage, in place of what they ask for themselves."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Overrides of settings of manager, monitor and dispatcher, for experiments (``trial_s``, ``drain_limit_s`` …)."""
    origin: Topic[RunOrigin] = RunOrigin()
    ending: Topic[Ending] = Ending()
    durable: Topic[Durable] = Durable()
    method: Topic[Method] = Method()

    @property
    def begins_with(self) -> str:
        """The name of the first composition."""
        if self.composition is not None:
            return self.composition
        plain = (each.name for each in self.compositions if all(len(g.stages) * g.replicas == 1 for g in each.groups))
        return next(plain, "sequential")
