"""Results, answers to pushed items, the summary of a run; refusals (RFC 9457), health and log lines."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from profiler.slo import SloStatus
from service.schemas.base import Answer, Told
from service.schemas.figures import Items


class Result(Answer):
    """A result with ``value``, or ``error`` of a dead letter. An item of several values has a row for each."""

    serial: int
    part: int | None = None
    """From 0, of an item for which a stage gave any number of values; others have none."""
    value: Any = None
    error: str | None = None
    run: str | None = None
    """Of the serial number; where results are read. Files have none: they are equal for every run of equal input."""


class Accepted(Answer):
    serial: int
    run: str | None


class AcceptedMany(Answer):
    serials: list[int]
    """Of the items, in their order. They have gaps where others pushed meanwhile."""
    run: str | None


class CheckedItems(Items):
    """Counts of items, with those of what must never happen, derived from the serial numbers of the results."""

    lost: int
    misordered: int


class AskedFor(Answer):
    """The offered load, and what became of it."""

    offered: int | None = None
    """Items that were due, or came by themselves, until the input ended."""
    admitted: int | None = None
    """Of these, what was taken in."""
    missed: int | None = None
    """Of these, what was due for longer than a source that was held back makes up for, and never read."""
    lag_s: float | None = None
    """How long the next item had been due when the input ended; 0 when none was."""


class Reached(Answer):
    objective: str
    """The objective in words: ``p95 latency ≤ 400 ms``"""
    value: str
    """The measured value: ``312 ms``; for a share also how many items were within the target."""


class Summary(AskedFor):
    """The summary of a run. Only ``failure`` is known of one that never began."""

    app: str | None = None
    run: str | None = None
    elapsed_s: float | None = None
    objectives: list[Reached] = []
    items: CheckedItems | None = None
    composition: str | None = None
    compositions_used: list[str] = []
    bundle_sizes: list[int] = []
    """How many items could travel together, in the order of first use."""
    switches: int = 0
    decisions: int = 0
    settle_s: list[float] = []
    throughput_per_s: float | None = None
    """From the moment the workers were there to the last result."""
    latency_ms: float | None = None
    """Mean, at the end."""
    slo_met_share: float | None = None
    slo_status: SloStatus | None = None
    """As of the last turn of the manager."""
    workers: int | None = None
    """Of the last composition."""
    first_error: str | None = None
    """Of the first item that failed, with its traceback."""
    unwritten: int = 0
    """Items that failed because their result is no JSON data."""
    failure: Told | None = None


class Problem(Answer):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    serials: list[int] | None = None
    """Of many items that were pushed, those that were taken before one was refused."""
    run: str | None = None


class ResultsGone(Problem):
    """A refusal of results that are gone, with those that are retained; null if there are none."""

    run: str | None
    from_: int | None = Field(validation_alias="from", serialization_alias="from")
    """The oldest serial number."""
    to: int | None


class FieldError(Answer):
    loc: list[str | int]
    msg: str
    line: int | None = None
    """Of a compositions document, where it can be told."""


class ValidationProblem(Problem):
    errors: list[FieldError]


class Health(Answer):
    status: Literal["alive", "ready"]


Plain = str | int | float | bool | None


class LogLine(Answer):
    id: int
    """From 1 with each start of the service; read on with the last one as ``after``."""
    at: str
    level: str
    event: str
    about: Mapping[str, Plain] = {}
    """What else is said: ``app``; of what an app printed, ``by`` and ``line``."""


class OwingRun(Answer):
    """A durable run that holds undelivered data."""

    app: str
    run: str
    epoch: int | None
    """Epoch of its last runner; null if the journal cannot be read."""
    items: int | None
    """Number of items that were acknowledged and not delivered."""
    results: int | None
    """Number of results that were delivered and are not in their sink."""
    journal: str
    present: bool
    """True if the service runs it or tries to; false: a start of the app continues it."""
    fault: str | None
