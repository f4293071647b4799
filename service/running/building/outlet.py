"""The thread between a run and a sink of its results: gathers, writes, tries again, and says how far the sink is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import structlog

from apps.output.port import Row, Sink
from compositions.errors import RecomposeError
from service.running.building.json_form import JSON

MOST_ITEMS = 20_000
"""Items that wait to be written before no more are taken."""
WRITE_ITEMS = 2_000
AGAIN_S = 0.5
END_S = 60.0
Item = Mapping[str, Any]
"""``serial`` and ``value``, ``values`` or ``error``."""
log = structlog.get_logger()


class Outlet:
    """As ``Table`` of ``building.sink``. ``start`` waits for the sink's answer, so that what it has is known.

    Raises: RecomposeError, by ``start``, for a sink that never will take anything.
    """

    def __init__(self, sink: Sink, next_serial: int, wake: Callable[[], None]) -> None:
        """``next_serial``: of the first item that this runner will deliver."""
        self._sink, self._next_serial, self._wake = sink, next_serial, wake
        self._changed = threading.Condition()
        self._waiting: deque[Item] = deque()
        self._ending = self._given_up = False
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)
        self.until = 0
        """Items below are in the sink."""
        self.fault: str | None = None
        """Why it cannot be written now."""
        self.failed: str | None = None

    def start(self) -> None:
        try:
            self.until = self._sink.begin(self._next_serial)
        except OSError as error:
            raise RecomposeError(str(error)) from error
        self._thread.start()

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < MOST_ITEMS

    def take(self, result: Item) -> None:
        """What the sink has already is passed over: it comes again after a restart."""
        if result["serial"] < self.until:
            return
        with self._changed:
            self._waiting.append(result)
            self._changed.notify_all()

    def finish(self) -> None:
        """Waits until all is written, unless nothing can be any more."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(END_S)
        self._given_up = True
        if self._waiting:
            log.error(
                "results could not be written to the sink", count=len(self._waiting), why=self.failed or self.fault
            )

    # --- its thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self.failed is None and (items := self._next()):
            try:
                until = items[-1]["serial"] + 1
                self._sink.write(until, [row for item in items for row in _rows(item)])
                self._written(len(items), until)
            except OSError as error:
                self.fault = str(error)
                with self._changed:
                    self._changed.wait_for(lambda: self._given_up, AGAIN_S)
            except Exception as error:
                self.failed = str(error) if isinstance(error, RecomposeError) else f"the sink failed: {error!r}"
            self._wake()
        self._sink.close()

    def _next(self) -> list[Item]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            return [self._waiting[place] for place in range(min(WRITE_ITEMS, len(self._waiting)))]

    def _written(self, count: int, until: int) -> None:
        with self._changed:
            for _ in range(count):
                self._waiting.popleft()
            self.until, self.fault = until, None


def _rows(item: Item) -> Iterator[Row]:
    serial, error = item["serial"], item.get("error")
    if error is not None:
        yield Row(serial, None, None, error)
    elif "values" in item:
        yield from (Row(serial, part, JSON(value), None) for part, value in enumerate(item["values"]))
    else:
        yield Row(serial, None, JSON(item["value"]), None)
