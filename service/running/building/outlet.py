"""The thread between a run and a sink of its results: gathers, writes, tries again, and says how far the sink is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import structlog

from apps.output.port import Row, Sink
from compositions.errors import RecomposeError
from service.running.building.json_form import text_of

MOST_ITEMS = 20_000
"""Items that wait to be written before no more are taken."""
AGAIN_S = 0.5
END_S = 60.0
Item = Mapping[str, Any]
"""``serial`` and ``value``, ``values`` or ``error``."""
log = structlog.get_logger()


class Outlet:
    """As ``Table`` of ``building.sink``. What is taken before the sink has answered waits; what it has then goes."""

    def __init__(self, sink: Sink, next_serial: int, wake: Callable[[], None], known: int = 0) -> None:
        """``next_serial``: of the first item that this runner will deliver; items below ``known`` are in the sink."""
        self._sink, self._next_serial, self._known, self._wake = sink, next_serial, known, wake
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
        self._thread.start()

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < MOST_ITEMS

    def take(self, result: Item) -> None:
        """What the sink has already is passed over: it comes again after a restart."""
        with self._changed:
            if result["serial"] >= self.until:
                self._waiting.append(result)
                if len(self._waiting) in (1, self._sink.gather.items):  # what its thread waits for
                    self._changed.notify_all()

    def finish(self) -> None:
        """Waits until all is written, unless nothing can be any more."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(END_S)
        with self._changed:
            self._given_up = True
            self._changed.notify_all()
        if self._waiting:
            log.error(
                "results could not be written to the sink", count=len(self._waiting), why=self.failed or self.fault
            )

    # --- its thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        begun = False
        while not (begun or self._over or (self._ending and not self._waiting)):
            begun = self._tried(self._begin)
        while begun and not self._over and (items := self._next()):
            written = False
            while not (written or self._over):  # the same again: the sink may have it, and its answer was lost
                written = self._tried(partial(self._write, items))
        self._sink.close()

    @property
    def _over(self) -> bool:
        return self._given_up or self.failed is not None

    def _tried(self, what: Callable[[], None]) -> bool:
        """Whether it is done; where it may be later, some time has passed."""
        try:
            what()
            return True
        except OSError as error:
            self.fault = str(error)
            with self._changed:
                self._changed.wait_for(lambda: self._given_up, AGAIN_S)
        except Exception as error:
            self.failed = str(error) if isinstance(error, RecomposeError) else f"the sink failed: {error!r}"
        finally:
            self._wake()
        return False

    def _begin(self) -> None:
        until = self._sink.begin(self._next_serial, self._known)
        with self._changed:
            self._waiting = deque(item for item in self._waiting if item["serial"] >= until)
            self.until, self.fault = until, None

    def _write(self, items: list[Item]) -> None:
        until = items[-1]["serial"] + 1
        self._sink.write(until, [row for item in items for row in _rows(item)])
        self._written(len(items), until)

    def _next(self) -> list[Item]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            most, wait_s = self._sink.gather
            self._changed.wait_for(lambda: len(self._waiting) >= most or self._ending, wait_s)
            return list(islice(self._waiting, most))

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
        yield from (Row(serial, part, text_of(value), None) for part, value in enumerate(item["values"]))
    else:
        yield Row(serial, None, text_of(item["value"]), None)
