"""Open the journal of a durable run, with what the previous runner stored; and accept pushed items."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apps.contract import App
from apps.expectations import read_item
from compositions.errors import RecomposeError
from compositions.logger import Logger
from datapipe.sources.fed import as_it_came, why_of
from datapipe.sources.inbox import Inbox
from datapipe.sources.portions import Positioned, Refused
from datapipe.sources.push import Push
from datapipe.sources.sources import Arrival, Source
from service.runner.durable.group_writer import Accept, GroupWriter
from service.runner.durable.journal import SUFFIX, Debt, Journal, debt_in, journal_path
from service.runner.durable.log_check import log_damage
from service.schemas.spec import RunSpec

WHY = "it cannot be read again from a position; replay, push, folder, redis, kafka, nats, mqtt and rabbitmq can"


def durability_fault(spec: RunSpec) -> str | None:
    """Return why a durable run cannot use its source or its sink; None if it can."""
    if spec.durable.durability == "none":
        return None
    if not spec.source.of.durable:
        return f"durability {spec.durable.durability!r} does not work with source {spec.source.kind!r}: {WHY}"
    if spec.sink is not None and spec.sink.kind == "spark":
        why = "which keeps its own checkpoint; all other sinks do"
        return f"durability {spec.durable.durability!r} does not work with sink {spec.sink.kind!r}, {why}"
    return None


def open_durable(spec: RunSpec, source: Source) -> GroupWriter | None:
    """Open the journal of a durable run, else None. Raises: RecomposeError for what cannot be durable."""
    durable, origin = spec.durable, spec.origin
    if durable.durability == "none":
        return None
    if (fault := durability_fault(spec)) is not None:
        raise RecomposeError(fault)
    if not isinstance(source, Push | Positioned | Inbox):
        raise RecomposeError(f"durability {durable.durability!r} does not work with source {spec.source.kind!r}: {WHY}")
    if durable.journals is None or origin.run is None:
        raise RecomposeError(f"durability {durable.durability!r} needs the service, which has a folder for journals")
    journal = open_journal(durable.journals, spec.app, origin.run, origin.epoch, sync=durable.journal_sync)
    pushed = _pushed(source)
    accept: Accept = (lambda _: None) if pushed is None else pushed.extend
    return GroupWriter(journal, accept)


def _pushed(source: Source) -> Push | None:
    """Return the place where items are stored before they are read."""
    return source.buffer if isinstance(source, Inbox) else source if isinstance(source, Push) else None


def push_door(kind: str, app: App, source: Source, kept: GroupWriter | None) -> "PushDoor":
    """Return the entrance of pushed items, with acknowledged undelivered ones; or set the source's position."""
    if kept is None:
        return PushDoor(app, source, kind)
    if isinstance(source, Positioned):
        source.seek(kept.found.positions)
        return PushDoor(app, source, kind)
    door = JournalledDoor(app, _pushed(source) or source, kind, kept)
    door.take_back(kept.found.undelivered, kept.found.accepted)
    if isinstance(source, Inbox):  # the source has its own entrance, and the door stays shut for others
        source.by_way_of(kept.push)
        return PushDoor(app, source, kind)
    return door


log = Logger()


def open_journal(folder: str, app: str, run: str, epoch: int, *, sync: bool = True) -> Journal:
    """Open the journal. Raises: as :class:`service.runner.durable.journal_file.JournalFile`."""
    path = journal_path(folder, app, run)
    journal = Journal(path, run, epoch, sync=sync)
    if epoch == 1:
        for other in path.parent.glob(f"*{SUFFIX}"):
            if other != path:
                _retire(other)
    return journal


def _retire(path: Path) -> None:
    """Remove the journal of a run that is over, unless it still owes data or cannot be read."""
    try:
        damage = log_damage(path, synced=True)
    except OSError as error:
        damage = str(error)
    debt = Debt(path, path.stem, fault=damage) if damage else debt_in(path, whole=True)
    if debt is not None:
        counts = {"items": debt.items, "results": debt.results}
        log.warning("journal of an earlier run kept for recovery", path=str(path), **counts, error=debt.fault)
        return
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        each.unlink(missing_ok=True)


class PushDoor:
    """Accepts items from any thread. It is shut if the source is another ``kind`` than push."""

    def __init__(self, app: App, source: Source, kind: str) -> None:
        self._app, self._kind = app, kind
        self._source = source if isinstance(source, Push) else None

    @property
    def accepted(self) -> int:
        """Return the number of items with a serial number."""
        return self._source.accepted if self._source is not None else 0

    @property
    def waiting(self) -> int:
        """Return the number of accepted items that were not read yet."""
        return self._source.waiting if self._source is not None else 0

    def put(self, values: Sequence[Any]) -> tuple[list[int], RecomposeError | None]:
        """Accept items; return the serial numbers before the first refused item, and the reason of the refusal."""
        serials: list[int] = []
        try:
            for value in values:
                serials.append(self._open().put(self._item(value)))  # noqa: PERF401 - as far as it gets
        except RecomposeError as error:
            return serials, error
        return serials, None

    def _open(self) -> Push:
        if self._source is None:
            message = f"{self._app.name} reads its items from source {self._kind!r}; start it with source 'push'"
            raise RecomposeError(message)
        return self._source

    def _item(self, value: Any) -> Any:
        try:
            binary = isinstance(value, bytes | np.ndarray)
            item = self._app.from_binary(value) if binary else read_item(self._app, value)
        except Exception as error:  # any exception of an app concerns this item only
            raise RecomposeError(f"{self._app.name} does not accept this item: {why_of(error)}") from error
        if item is not value:
            self._check_is_fit(item)
        return item

    def _check_is_fit(self, item: Any) -> None:
        """Check that an item can be sent to a worker; it comes from outside. Raises: RecomposeError if it cannot."""
        try:
            pickle.dumps(item, protocol=5, buffer_callback=lambda _: None)  # large arrays are not copied
        except Exception as error:
            made = f"{self._app.name} turns this item into a {type(item).__name__}, which cannot be sent to a worker"
            raise RecomposeError(f"{made} ({why_of(error)}); it must be picklable") from error

    def _stored_form(self, value: Any) -> Any:
        try:
            return as_it_came(value)
        except Exception as error:
            what = f"this item, a {type(value).__name__}, cannot be stored: {error}"
            raise RecomposeError(f"{what}; it must be picklable") from error


class JournalledDoor(PushDoor):
    """Acknowledges only stored items: ``journal`` passes them to the source once they are stored."""

    def __init__(self, app: App, source: Source, kind: str, journal: GroupWriter) -> None:
        super().__init__(app, source, kind)
        self._journal = journal

    def put(self, values: Sequence[Any]) -> tuple[list[int], RecomposeError | None]:
        """Accept items; all accepted ones are stored together."""
        stored: list[Any] = []
        arrivals: list[Arrival] = []
        refusal = first = None
        try:
            source = self._open()
        except RecomposeError as error:
            return [], error
        try:
            try:
                for value in values:
                    form = self._stored_form(value)
                    arrivals.append(source.announced(self._item(value)))
                    stored.append(form)
            except RecomposeError as error:  # the items before it are accepted
                refusal = error
            first = self._journal.push(tuple(stored), arrivals) if arrivals else 0
        except RecomposeError as error:
            return [], error
        finally:
            if first is None:
                source.withdraw(len(arrivals))
        return list(range(first, first + len(arrivals))), refusal

    def take_back(self, values: Sequence[Any], accepted: int) -> None:
        """Return to the source the items that an earlier runner acknowledged and did not deliver, of ``accepted`` items
        in all. Items that the app refuses now, because it was edited, become dead letters."""
        first = accepted - len(values)
        items = [self._item_again(value, first + at) for at, value in enumerate(values)]
        self._open().begin(items, accepted)

    def _item_again(self, value: Any, serial: int) -> Any:
        if isinstance(value, Refused):  # the earlier runner refused it
            return value
        try:
            return self._item(value)
        except RecomposeError as error:
            return Refused(f"{error} (item {serial}, which an earlier runner accepted)")
