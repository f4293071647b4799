"""Bodies of requests. Unknown fields are refused."""

from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from compositions.logger import Logger
from control.decisions import Mode
from control.strategies import DEFAULT, FORMER, StrategyName, present_name
from datapipe.source_kinds import KindName
from profiler.slo import FASTEST, INPUT_RATE, MAX_TARGET, MAX_TOGETHER, Slo, SloError, Statistic, parse_slo, together
from runtime.dispatch.events import SwitchStyle
from service.schemas.base import Data
from service.schemas.slo import BudgetBody
from service.schemas.spec import (
    WHOLE,
    BatchingSpec,
    DurabilityName,
    Frozen,
    InputSpec,
    Number,
    RunSpec,
    SinkSpec,
    SourceSpec,
    saying,
)

log = Logger()


def present_strategy(value: object) -> object:
    """Return the name of the strategy that is meant; log a warning if a former name was given."""
    if value == FORMER:
        log.warning("strategy was removed; the default runs instead", asked=FORMER, runs=DEFAULT, refused_from="0.3")
    return present_name(value) if isinstance(value, str) else value


Name = Annotated[str, Field(min_length=1, max_length=200)]
Threshold = Annotated[Number, Field(ge=0, le=1, description="Tolerated ratio beyond the target.")]
ThroughputTarget = Annotated[
    Annotated[Number, Field(gt=0, le=MAX_TARGET)] | Literal["input_rate", "fastest"],
    saying(f'items/s above 0 and at most {MAX_TARGET:,.0f}, "{INPUT_RATE}" or "{FASTEST}"'),
]


class LatencyObjective(Frozen):
    metric: Literal["latency"]
    target: Annotated[Number, Field(gt=0, le=MAX_TARGET, description="Milliseconds.")]
    threshold: Threshold = 0.2
    statistic: Statistic = "mean"
    share: Annotated[Number, Field(ge=0.5, le=0.999)] | None = Field(
        default=None, description="With statistic share: share of the items within the target; null: 0.95."
    )

    @model_validator(mode="after")
    def _share_is_for_share(self) -> Self:
        if self.share is not None and self.statistic != "share":
            raise ValueError(f"share = {self.share} needs statistic 'share'; set it, or leave share out")
        return self

    def slo(self) -> Slo:
        return Slo(self.metric, self.target, self.threshold, self.statistic, self.share)


class ThroughputObjective(Frozen):
    metric: Literal["throughput"]
    target: ThroughputTarget
    threshold: Threshold = 0.2

    def slo(self) -> Slo:
        return Slo(self.metric, self.target, self.threshold)


class LatencySlo(LatencyObjective):
    app: str


class ThroughputSlo(ThroughputObjective):
    app: str


_MODELS: dict[str, type[Frozen]] = {"latency": LatencyObjective, "throughput": ThroughputObjective}


def _one(slo: Slo) -> Data:
    """Return a single objective as the fields of its model."""
    objective = {"metric": slo.metric, "target": slo.target, "threshold": slo.threshold}
    known = objective | {"statistic": slo.statistic, "share": slo.share}
    accepted = _MODELS[slo.metric].model_fields
    return {name: value for name, value in known.items() if name in accepted and value is not None}


class JointSlo(Frozen):
    """All objectives of an app together, with its budget."""

    app: str
    objectives: Annotated[
        list[Annotated[LatencyObjective | ThroughputObjective, Field(discriminator="metric")]],
        Field(min_length=1, max_length=MAX_TOGETHER, description="Each kind of figure at most once."),
    ]
    budget: BudgetBody | None = None

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        try:
            self.slo()
        except SloError as error:
            raise ValueError(str(error)) from error
        return self

    @classmethod
    def of(cls, app: str, slo: Slo) -> Self:
        """Return the request for ``slo``, whether it is one objective or several."""
        given = {} if slo.budget is None else {"budget": BudgetBody.of(slo.budget)}
        return cls.model_validate({"app": app, "objectives": [_one(each) for each in slo.each], **given})

    def slo(self) -> Slo:
        budget = None if self.budget is None else self.budget.budget()
        return together([each.slo() for each in self.objectives], budget)


def _form(value: Any) -> str:
    named = value if isinstance(value, dict) else vars(value) if isinstance(value, Frozen) else {}
    return "together" if "objectives" in named else "one"


SloRequest = Annotated[
    Annotated[LatencySlo | ThroughputSlo, Field(discriminator="metric"), Tag("one")]
    | Annotated[JointSlo, Tag("together")],
    Discriminator(_form),
]
"""One objective, or several that must be met together."""


class AnnounceRequest(Frozen):
    """An upcoming load."""

    model_config = ConfigDict(populate_by_name=True)

    from_: AwareDatetime | None = Field(default=None, alias="from", description="Start of the load; null: now.")
    until: AwareDatetime
    rate_per_s: Annotated[Number, Field(gt=0, le=1_000_000)]

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.from_ is not None and self.until <= self.from_:
            raise ValueError(f"until must be after from, {self.from_.isoformat()}")
        return self


def _source(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


def _objectives(value: Any) -> Any:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(each, str) for each in texts):
        raise ValueError("must be a text such as p95=400ms, or a list of them")
    for text in texts:
        try:
            parse_slo(text)
        except SloError as error:
            raise ValueError(str(error).removeprefix("slo: ")) from error
    return texts


Source = Annotated[SourceSpec, BeforeValidator(_source, json_schema_input_type=SourceSpec | KindName)]
"""A source: its fields, or its kind alone."""


class StartRequest(Frozen):
    """A start body. All fields have defaults: the app's own data set, unpaced, adapted by the default strategy."""

    options: dict[str, Any] = Field(default_factory=dict, description="The app's own options; see GET /apps.")
    source: Source = SourceSpec()
    sink: SinkSpec | None = Field(
        default=None,
        description="A table that Spark writes, or another sink (docs/connect); null: results in the API only.",
    )
    input: InputSpec = InputSpec()
    batching: BatchingSpec = BatchingSpec()
    overload: Literal["block", "shed"] = "block"
    composition: str | None = Field(default=None, description="First composition; null: all stages sequential.")
    mode: Mode = Mode.AUTO
    strategy: Annotated[StrategyName, BeforeValidator(present_strategy)] = DEFAULT
    switch_style: SwitchStyle | None = Field(
        default=None,
        description="How a change is made: drain (the old composition empties first, as in the papers) or seamless "
        "(without a gap; replicas change in place); null: the strategy's preference.",
    )
    latency_from: Literal["due", "read"] | None = Field(
        default=None,
        description="Start of an item's latency for the objective: when it was due, or when it was read (as in the "
        "papers); null: the strategy's preference.",
    )
    resources: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Resources of workers by stage, such as {detect: {gpus: 0.25}}; they replace the stage's own.",
    )
    settings: dict[str, int | Number | str] = Field(
        default_factory=dict,
        description="Settings of this run by name, such as catch_up_s. For an unknown name or a value out of range, "
        "the refusal lists the accepted ones.",
    )
    durability: DurabilityName = Field(
        default="none",
        description="What survives a runner's crash. none: nothing. restart: acknowledged items, source position and "
        "states, but the last results may be delivered twice. exactly-once: as restart, with each result once.",
    )
    journal_sync: bool = Field(
        default=True,
        description="In a durable run, wait for the disk at each commit. If false, a process that dies loses nothing, "
        "but a power failure may lose the last moments.",
    )
    slo: Annotated[list[str], BeforeValidator(_objectives, json_schema_input_type=str | list[str])] | None = Field(
        default=None,
        description="Objectives as on the command line, such as p95=400ms; all must be met together. They are stored "
        "as by POST /slo. null: keep the stored objectives.",
    )
    threshold: Threshold = 0.2
    budget: BudgetBody | None = Field(default=None, description="Resources that may be used to meet slo.")
    items: Annotated[int, Field(strict=True, gt=0, le=10**12), WHOLE] | None = None
    duration_s: Annotated[Number, Field(gt=0, le=1e9)] | None = None

    @model_validator(mode="after")
    def _objectives_go_together(self) -> Self:
        if self.budget is not None and self.slo is None:
            raise ValueError("a budget needs an objective; give one with slo")
        try:
            _ = self.objective
        except SloError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def objective(self) -> Slo | None:
        """The objectives of ``slo`` as one, within the budget; None if there are none."""
        if self.slo is None:
            return None
        slos = [parse_slo(text, threshold=self.threshold) for text in self.slo]
        return together(slos, None if self.budget is None else self.budget.budget())

    def spec(self, app: str) -> RunSpec:
        """Return the spec of a run of ``app``, without its objectives."""
        asked = {name: value for name, value in self if name in RUN_FIELDS}
        return RunSpec.model_validate({"app": app, **asked})


RUN_FIELDS = StartRequest.model_fields.keys() - {"slo", "threshold", "budget"}
"""Fields that a start body and the spec of a run share; objectives are stored apart from the run."""


class StopRequest(Frozen):
    """A request to stop an app."""

    drain: bool = Field(default=True, strict=True, description="Deliver accepted items first; false: give them up.")
    timeout_s: Annotated[Number, Field(ge=0, le=86_400)] | None = Field(
        default=None,
        description="Maximum time to deliver accepted items, in seconds (null: 600). Then undelivered items are given "
        "up, and the app ends within 2 s.",
    )
    force: bool = Field(default=False, strict=True, description="End runner and workers at once; nothing is drained.")


class ModeRequest(Frozen):
    mode: Mode
    composition: str | None = Field(default=None, description="Composition for mode pinned; null: the active one.")
