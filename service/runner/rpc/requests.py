"""Requests to a runner, one frozen value for each question; they and their answers can be pickled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from apps.rates import Rate
from compositions.errors import RecomposeError
from compositions.model import Composition
from control.arbitration.arbiter import Bid, Limits
from control.decisions import Grant, Mode
from profiler.slo import Slo
from service.schemas.compositions import Choice, SizeChange, WhatIf
from service.schemas.decisions import Decision, QuietRun
from service.schemas.results import Result, Summary
from service.schemas.spec import BatchingSpec, InputSpec, PlannedLoad, RunSpec
from service.schemas.status import Sample, Status

A_co = TypeVar("A_co", covariant=True)
Q = TypeVar("Q")
R = TypeVar("R")

Handler = tuple[type[Any], Callable[[Any], Any]]
"""A kind of request and who answers it; made by ``Request.by``, which knows that the two fit."""


@dataclass(frozen=True, slots=True)
class Request(Generic[A_co]):
    """Something asked of a runner, which answers with an ``A_co``."""

    @classmethod
    def by(cls: type[Q], handler: Callable[[Q], A_co]) -> Handler:
        """``handler`` answers this kind."""
        return cls, handler


@dataclass(frozen=True, slots=True)
class Start(Request[None]):
    """Begins the run, the first time; answered at once. ``ReadStatus`` tells when it is up, or why it failed."""


@dataclass(frozen=True, slots=True)
class Stop(Request[None]):
    """No more input; answered when the run has ended, or soon after ``timeout_s``."""

    drain: bool = True
    """All accepted items are delivered first."""
    timeout_s: float = 30.0
    """Longest drain; what is still in flight then is given up."""
    hands_over: bool = False
    """Another runner goes on: this one answers and is killed, and its workers wait for the other."""


# --- changes, each raising RecomposeError for a value that does not fit the app ---


@dataclass(frozen=True, slots=True)
class SetSlo(Request[None]):
    """Sets the objective; None removes it."""

    slo: Slo | None


@dataclass(frozen=True, slots=True)
class SetInput(Request[None]):
    input: InputSpec


@dataclass(frozen=True, slots=True)
class SetBatching(Request[None]):
    """Sets the bundle size for compositions that set none of their own."""

    batching: BatchingSpec


@dataclass(frozen=True, slots=True)
class SetRate(Request[None]):
    """Any input rate over time, counted from now; for experiments."""

    rate: Rate


@dataclass(frozen=True, slots=True)
class SetPlannedLoads(Request[None]):
    """Replaces all planned loads."""

    announced: tuple[PlannedLoad, ...]


@dataclass(frozen=True, slots=True)
class SetMode(Request[None]):
    """``composition`` goes with mode pinned; None pins the active one."""

    mode: Mode
    composition: str | None = None


@dataclass(frozen=True, slots=True)
class SetCompositions(Request[None]):
    compositions: tuple[Composition, ...]


@dataclass(frozen=True, slots=True)
class SetGrant(Request[None]):
    """Set the share of the machine's budget (None: no budget), again for a runner that was started again."""

    grant: Grant | None


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to many items: serial numbers of those taken, and why the next one was not."""

    serials: list[int]
    refusal: RecomposeError | None
    run: str | None

    @property
    def serial(self) -> int:
        """The serial number of the only item. Raises: why it was not taken."""
        if self.refusal is not None:
            raise self.refusal
        return self.serials[0]


@dataclass(frozen=True, slots=True)
class PushMany(Request[Taken]):
    """Items in turn, up to the first that is refused: for want of room, or by a source other than ``push``."""

    values: tuple[Any, ...]
    """JSON, as the app's ``from_json`` takes it; bytes or an array, as its ``from_binary`` does."""


@dataclass(frozen=True, slots=True)
class ResetGaps(Request[None]):
    """Starts the statistics of gaps between outputs anew; for measurements."""


Change = SetSlo | SetInput | SetBatching | SetPlannedLoads | SetMode | SetCompositions
"""What the spec of a run is another one after."""


def changed(spec: RunSpec, change: Change) -> RunSpec:
    """Return the spec of a run after ``change``, whose fields have the names of those of the spec."""
    new = {field.name: getattr(change, field.name) for field in fields(change)}
    if isinstance(change, SetMode):
        new["composition"] = change.composition or spec.composition
    return spec.but(**new)


@dataclass(frozen=True, slots=True)
class ReadList(Request[list[R]]):
    """A request for a list, which is empty as long as there is no run."""


@dataclass(frozen=True, slots=True)
class ReadSpec(Request[RunSpec]):
    """Reads the spec: as the run was started, with all changes since."""


@dataclass(frozen=True, slots=True)
class ReadStatus(Request[Status]):
    """The body of ``GET /status/{app}``."""


@dataclass(frozen=True, slots=True)
class AskBid(Request[Bid]):
    """Asks how well the objective would be met within each of ``limits``."""

    limits: Limits


@dataclass(frozen=True, slots=True)
class ReadDecisions(ReadList[Decision]):
    """Decisions with an id above ``after_id``, oldest first."""

    after_id: int
    limit: int


@dataclass(frozen=True, slots=True)
class ReadNoChanges(ReadList[QuietRun]):
    """The latest runs of "no change", oldest first."""

    limit: int


@dataclass(frozen=True, slots=True)
class ReadSizes(ReadList[SizeChange]):
    """The latest changes of how many items travel together, oldest first."""

    limit: int


@dataclass(frozen=True, slots=True)
class ReadResults(Request[list[Result]]):
    """Results with a serial number above ``after``, in order. Raises: ResultsGoneError, also for another ``run``."""

    after: int | None
    """None: from the oldest one kept."""
    limit: int
    run: str | None = None
    """In which ``after`` was given; None: not told."""


@dataclass(frozen=True, slots=True)
class ReadCompositions(ReadList[Choice]):
    """Reads all compositions, with predictions if there is a profile."""


@dataclass(frozen=True, slots=True)
class ReadHistory(ReadList[Sample]):
    """Reads one sample a second of the last ``last_s`` seconds, oldest first."""

    last_s: float
    most: int | None = None
    """Samples; of more every so many-th is told, the latest among them. None: all."""

    def thin(self, samples: Sequence[Sample]) -> list[Sample]:
        """``most`` of them, evenly."""
        step = 1 if self.most is None else -(-len(samples) // self.most) or 1
        return list(samples[(len(samples) - 1) % step :: step])


@dataclass(frozen=True, slots=True)
class ReadWhatIf(Request[WhatIf]):
    """Predictions under other circumstances; None means as it is now. Raises: UnavailableError before a profile."""

    cores: int | None = None
    replicas: int | None = None
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReadSummary(Request[Summary]):
    """The figures of the run so far."""
