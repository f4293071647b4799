"""Results, answers to pushed items, the summary of a run; refusals (RFC 9457), health and log lines."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from profiler.slo import SloStatus
from service.schemas.base import Answer, Told
from service.schemas.figures import Items


class Result(Answer):
    """A result with ``value``, or ``error`` for a dead letter. An item that gave several values has a row for each."""

    serial: int
    part: int | None = None
    """Position from 0 among the values of an item, if a stage may give any number of values; else absent."""
    value: Any = None
    error: str | None = None
    run: str | None = None
    """Run of the serial number, if results are read. Files do not have it: equal input gives equal files."""


class Accepted(Answer):
    serial: int
    run: str | None


class AcceptedMany(Answer):
    serials: list[int]
    """Serial numbers of the items, in the order of the request. They have gaps if other clients pushed meanwhile."""
    run: str | None


class CheckedItems(Items):
    """Counts of items, also of lost and misordered ones, which must not exist, by the results' serial numbers."""

    lost: int
    misordered: int


class AskedFor(Answer):
    """The offered load, and its outcome."""

    offered: int | None = None
    """Number of items that were due, or arrived by themselves, until the input ended."""
    admitted: int | None = None
    """Number of offered items that were admitted."""
    missed: int | None = None
    """Number of offered items that were never read: they were overdue for longer than a delayed source makes up for."""
    lag_s: float | None = None
    """Time for which the next item was overdue when the input ended; 0 if no item was."""


class Reached(Answer):
    objective: str
    """The objective in words: ``p95 latency ≤ 400 ms``"""
    value: str
    """The measured value, such as ``312 ms``; for a share also how many items were within the target."""


class Summary(AskedFor):
    """The summary of a run. If the run never began, only ``failure`` is known."""

    app: str | None = None
    run: str | None = None
    elapsed_s: float | None = None
    objectives: list[Reached] = []
    items: CheckedItems | None = None
    composition: str | None = None
    compositions_used: list[str] = []
    bundle_sizes: list[int] = []
    """Maximum bundle sizes, in the order of first use."""
    switches: int = 0
    decisions: int = 0
    settle_s: list[float] = []
    throughput_per_s: float | None = None
    """Throughput between the moment when the workers were ready and the last result."""
    latency_ms: float | None = None
    """Mean latency at the end."""
    slo_met_share: float | None = None
    slo_status: SloStatus | None = None
    """Status at the last turn of the manager."""
    workers: int | None = None
    """Number of workers of the last composition."""
    first_error: str | None = None
    """Error of the first item that failed, with its traceback."""
    unwritten: int = 0
    """Number of items that failed because their result is not JSON data."""
    failure: Told | None = None


class Problem(Answer):
    """An error response (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    serials: list[int] | None = None
    """If many items were pushed: serial numbers of those that were accepted before one was refused."""
    run: str | None = None


class ResultsGone(Problem):
    """A refusal of results that are gone. It names the retained results; null if there are none."""

    run: str | None
    from_: int | None = Field(validation_alias="from", serialization_alias="from")
    """Oldest retained serial number."""
    to: int | None


class FieldError(Answer):
    loc: list[str | int]
    msg: str
    line: int | None = None
    """Line of a compositions document, if it is known."""


class ValidationProblem(Problem):
    errors: list[FieldError]


class Health(Answer):
    status: Literal["alive", "ready"]


Plain = str | int | float | bool | None


class LogLine(Answer):
    id: int
    """Number of the line since the service started, from 1; pass the last one as ``after`` to continue."""
    at: str
    level: str
    event: str
    about: Mapping[str, Plain] = {}
    """Further fields, such as ``app``; a line that an app printed has ``by`` and ``line``."""


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
