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
"""A kind of request and its handler; ``Request.by`` makes the pair and checks its types."""


@dataclass(frozen=True, slots=True)
class Request(Generic[A_co]):
    """A request to a runner, whose answer is an ``A_co``."""

    @classmethod
    def by(cls: type[Q], handler: Callable[[Q], A_co]) -> Handler:
        """Return the pair of this kind of request and its ``handler``."""
        return cls, handler


@dataclass(frozen=True, slots=True)
class Start(Request[None]):
    """Start the run, once. The answer comes at once; ``ReadStatus`` shows success or failure."""


@dataclass(frozen=True, slots=True)
class Stop(Request[None]):
    """Take no more input; the answer comes when the run has ended, or soon after ``timeout_s``."""

    drain: bool = True
    """If true, all accepted items are delivered first."""
    timeout_s: float = 30.0
    """Longest time to drain, in seconds; then items in flight are given up."""
    hands_over: bool = False
    """If true, another runner continues: this one answers and is killed, and its workers wait for the new one."""


# --- changes; each raises RecomposeError for a value that does not fit the app ---


@dataclass(frozen=True, slots=True)
class SetSlo(Request[None]):
    """Set the objective; None removes it."""

    slo: Slo | None


@dataclass(frozen=True, slots=True)
class SetInput(Request[None]):
    input: InputSpec


@dataclass(frozen=True, slots=True)
class SetBatching(Request[None]):
    """Set the bundle size for compositions that set none of their own."""

    batching: BatchingSpec


@dataclass(frozen=True, slots=True)
class SetRate(Request[None]):
    """Set any input rate over time, counted from now; for experiments."""

    rate: Rate


@dataclass(frozen=True, slots=True)
class SetPlannedLoads(Request[None]):
    """Replace all planned loads."""

    announced: tuple[PlannedLoad, ...]


@dataclass(frozen=True, slots=True)
class SetMode(Request[None]):
    """Set the mode. ``composition`` is for mode pinned; None pins the active one."""

    mode: Mode
    composition: str | None = None


@dataclass(frozen=True, slots=True)
class SetCompositions(Request[None]):
    compositions: tuple[Composition, ...]


@dataclass(frozen=True, slots=True)
class SetGrant(Request[None]):
    """Set the share of the machine's budget (None: no budget); sent again to a new runner."""

    grant: Grant | None


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to several items: serial numbers of the accepted ones, and why the next one was refused."""

    serials: list[int]
    refusal: RecomposeError | None
    run: str | None

    @property
    def serial(self) -> int:
        """Return the serial number of the only item. Raises: the reason of its refusal."""
        if self.refusal is not None:
            raise self.refusal
        return self.serials[0]


@dataclass(frozen=True, slots=True)
class PushMany(Request[Taken]):
    """Push items in turn, up to the first that is refused: for lack of room, or by a source other than ``push``."""

    values: tuple[Any, ...]
    """Items: JSON for the app's ``from_json``, bytes or an array for its ``from_binary``."""


@dataclass(frozen=True, slots=True)
class ResetGaps(Request[None]):
    """Restart the statistics of gaps between outputs; for measurements."""


Change = SetSlo | SetInput | SetBatching | SetPlannedLoads | SetMode | SetCompositions
"""Changes that alter the spec of a run."""


def changed(spec: RunSpec, change: Change) -> RunSpec:
    """Return the spec of a run after ``change``, whose fields have the same names as the spec's."""
    new = {field.name: getattr(change, field.name) for field in fields(change)}
    if isinstance(change, SetMode):
        new["composition"] = change.composition or spec.composition
    return spec.but(**new)


@dataclass(frozen=True, slots=True)
class ReadList(Request[list[R]]):
    """A request for a list; the list is empty while there is no run."""


@dataclass(frozen=True, slots=True)
class ReadSpec(Request[RunSpec]):
    """Read the spec, with all changes since the start."""


@dataclass(frozen=True, slots=True)
class ReadStatus(Request[Status]):
    """Read the body of ``GET /status/{app}``."""


@dataclass(frozen=True, slots=True)
class AskBid(Request[Bid]):
    """Ask how well the objective would be met within each of ``limits``."""

    limits: Limits


@dataclass(frozen=True, slots=True)
class ReadDecisions(ReadList[Decision]):
    """Read decisions with an id above ``after_id``, oldest first."""

    after_id: int
    limit: int


@dataclass(frozen=True, slots=True)
class ReadNoChanges(ReadList[QuietRun]):
    """Read the latest series of "no change", oldest first."""

    limit: int


@dataclass(frozen=True, slots=True)
class ReadSizes(ReadList[SizeChange]):
    """Read the latest changes of the bundle size, oldest first."""

    limit: int


@dataclass(frozen=True, slots=True)
class ReadResults(Request[list[Result]]):
    """Read results with a serial number above ``after``. Raises: ResultsGoneError, also for another ``run``."""

    after: int | None
    """Serial number to continue after; None: from the oldest retained result."""
    limit: int
    run: str | None = None
    """Run that ``after`` belongs to; None: not given."""


@dataclass(frozen=True, slots=True)
class ReadCompositions(ReadList[Choice]):
    """Read all compositions, with predictions if there is a profile."""


@dataclass(frozen=True, slots=True)
class ReadHistory(ReadList[Sample]):
    """Read one sample per second of the last ``last_s`` seconds, oldest first."""

    last_s: float
    most: int | None = None
    """Maximum number of samples; if there are more, every n-th is returned, and always the latest. None: all."""

    def thin(self, samples: Sequence[Sample]) -> list[Sample]:
        """Return ``most`` of the samples, evenly spaced."""
        step = 1 if self.most is None else -(-len(samples) // self.most) or 1
        return list(samples[(len(samples) - 1) % step :: step])


@dataclass(frozen=True, slots=True)
class ReadWhatIf(Request[WhatIf]):
    """Predict under other circumstances; None: as now. Raises: UnavailableError before there is a profile."""

    cores: int | None = None
    replicas: int | None = None
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReadSummary(Request[Summary]):
    """Read the figures of the run so far."""
