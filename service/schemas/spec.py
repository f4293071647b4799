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
    """Return a unique run identifier that sorts by its time of creation (seconds, UTC)."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"


Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
"""A JSON number: not a text, not a boolean, not infinite."""


def whole(value: object) -> object:
    """Convert a whole number that is written as a fraction: JSON does not distinguish 237.0 and 237."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(whole)


def saying(what: str) -> WrapValidator:
    """Return a validator that states in one sentence what would be accepted, not in one per member of a union."""

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
    """Path of the user's files; None: the app's own data set. ``video`` takes a file, a camera's number or a URL;
    ``spark`` what its format loads, if it takes a path."""
    loop: Annotated[bool, Field(strict=True)] = True
    """Repeat the data forever; with ``spark``: wait for more data instead of ending after the present data."""
    format: str | None = None
    """Format for ``spark``: csv, json, parquet, kafka, rate or any other that Structured Streaming reads."""
    options: dict[str, str | bool | int | Number] = Field(default_factory=dict)
    """Options of that format; the option ``schema`` is a DDL string."""
    transform: str | None = None
    """For ``spark``: file with an SQL query over the view ``input``; its rows are the items."""
    checkpoint: str | None = None
    """For ``spark``: folder that stores the position; None: in the folder of a Spark sink, or not at all."""

    def looping(self, loop: bool) -> Self:
        """Return a copy with another ``loop``."""
        return self.model_copy(update={"loop": loop})

    @property
    def fault(self) -> str | None:
        """Reason why the fields contradict each other, which a schema cannot check; None if they do not."""
        return self.of.fault(self.model_dump())

    @property
    def of(self) -> SourceKind:
        return KINDS[self.kind]


class SinkSpec(Frozen):
    """A destination of results besides the window that the API shows."""

    kind: SinkName = "spark"
    format: Literal["parquet", "orc", "json", "csv"] = "parquet"
    path: str = Field(min_length=1)
    """Folder or URL of the table; for ``sql`` the database URL of SQLAlchemy; for ``redis``, ``kafka``, ``nats``,
    ``mqtt``, ``rabbitmq`` and ``webhook`` the URL."""
    schema_: str | None = Field(default=None, alias="schema")
    """Fields of a result as a DDL string; None: one column with JSON."""
    options: dict[str, str | bool | int | Number] = Field(default_factory=dict)
    """Options of the writer; ``sql``: ``table``; ``webhook``: ``authorization``; ``kafka``: those of librdkafka."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @property
    def fault(self) -> str | None:
        """Reason why the fields contradict each other; None if they do not."""
        if self.kind == "spark":
            return None
        for field, name in (("format", "format"), ("schema_", "schema")):
            if field in self.model_fields_set:
                return f"{name} is accepted with sink kind spark only, not with {self.kind}"
        return SINKS[self.kind].fault(self.options)


PatternName = Literal["wave", "binary", "increasing", "decreasing", "spike", "trace"]
Own = Annotated[str, Field(pattern=r"^custom:[A-Za-z_]\w*:[A-Za-z_]\w*$")]
Pattern = Annotated[PatternName | Own | None, saying(f"{', '.join(get_args(PatternName))} or custom:MODULE:FUNCTION")]
"""A built-in pattern, or a function in a module of an apps folder from elapsed seconds to items/s."""


class InputSpec(Frozen):
    """Input rate: fixed, by pattern (SPBench, section 3.3), from a trace file, or unpaced (default)."""

    rate_per_s: Number | None = Field(default=None, gt=0, le=1_000_000)
    pattern: Pattern = None
    period_s: Number | None = Field(default=None, gt=0)
    min_per_s: Number | None = Field(default=None, ge=0)
    max_per_s: Number | None = Field(default=None, gt=0)
    size_percent: Number = Field(default=10.0, gt=0, le=100)
    path: str | None = None
    """Trace file with one arrival time per line, in seconds; the trace is compressed to ``period_s``."""

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
    """Bundle size. ``auto``: one item while the overhead of a hop is small against the work, else more."""
    bytes: Annotated[int, Field(strict=True, ge=1, le=MOST_BYTES), WHOLE] = 4 * 2**20
    linger_ms: Number = Field(default=0.0, ge=0, le=MOST_LINGER_MS)
    """Maximum time for which the first item waits for items that are not due yet."""
    controller: Asked | None = None
    """Controller of the size; null: ``fixed`` if items are given, else ``auto``."""
    settings: Settings = Field(default_factory=dict)
    """Settings of the controller; others have their defaults."""

    @property
    def batching(self) -> Batching:
        """The bundle size as a value. Raises: SettingsError if items, controller and settings do not fit together."""
        items = None if self.items == "auto" else self.items
        return Batching(items, self.bytes, float(self.linger_ms)).controlled(self.controller, self.settings)


class TelemetrySpec(Frozen):
    """Rolling Parquet files of items, snapshots, decisions and switches, and the size that an app's files may have."""

    folder: str
    keep_days: float = 7.0
    keep_mb: float = 1000.0


class PlannedLoad(Frozen):
    """A load that a user announced, in seconds since 1970."""

    from_epoch_s: Number
    until_epoch_s: Number
    rate_per_s: Annotated[Number, Field(gt=0)]

    def on_clock(self, epoch_s: float) -> Announcement:
        """Return the same load on a clock that read 0 at ``epoch_s`` (seconds since 1970)."""
        return Announcement(self.from_epoch_s - epoch_s, self.until_epoch_s - epoch_s, self.rate_per_s)


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """The position of a run among the runs of an app."""

    run: str | None = None
    """Identifier of the run, whose serial numbers start at 0; None: the runner makes one."""
    epoch: int = 1
    """Number of the runner since the start of the app, from 1."""
    started_again: str | None = None
    """Reason why the first runner was replaced."""
    kept_up: bool = False
    """True if a service keeps the run going: it waits out temporary failures, such as a lack of free CPU."""


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
    """If true, a commit waits for the disk. If false, a power failure loses the last moments, a crash nothing."""


@dataclass(frozen=True, slots=True)
class Method:
    """The way in which the manager adapts the app."""

    strategy: str = DEFAULT
    switch_style: SwitchStyle | None = None
    """Way in which one composition follows another; None: the strategy's preference."""
    latency_from: Literal["due", "read"] | None = None
    """Start of an item's latency for the SLO: when it was due, or read (as in the papers); None: the strategy's."""


class RunSpec(FlatOnTheWire, Frozen):
    """All inputs of a runner; picklable."""

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
    """Resources by stage; they replace the resources that the stages request themselves."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Overrides of settings of manager, monitor and dispatcher, for experiments (``trial_s``, ``drain_limit_s`` …)."""
    origin: Topic[RunOrigin] = RunOrigin()
    ending: Topic[Ending] = Ending()
    durable: Topic[Durable] = Durable()
    method: Topic[Method] = Method()

    @property
    def begins_with(self) -> str:
        """Return the name of the first composition."""
        if self.composition is not None:
            return self.composition
        plain = (each.name for each in self.compositions if all(len(g.stages) * g.replicas == 1 for g in each.groups))
        return next(plain, "sequential")
