"""A run from its start to its end, as its user sees it in a terminal."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from runtime.housekeeping import settle
from service.bodies.status import Status
from service.cli import render
from service.running.asking.patience import Patient
from service.running.asking.requests import ReadStatus, Start, Stop
from service.running.runner import Runner

LOOK_S = 0.25


def follow(runner: Runner, quiet: bool) -> bool:
    """Starts it and waits until it has ended; the first Ctrl-C or SIGTERM drains, the second gives up what is left.

    Returns whether there was one.
    """
    interrupted = 0

    def interrupt(*_: Any) -> None:
        nonlocal interrupted
        interrupted += 1
        if interrupted > 1:
            raise KeyboardInterrupt
        threading.Thread(target=runner.ask, args=(Stop(),), daemon=True).start()

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    settle()  # the process is for this run alone
    runner.ask(Start())
    asked = Patient(runner)
    try:
        with progress(quiet, runner.spec.items, lambda: asked.ask(ReadStatus())) as look:
            while not runner.wait(LOOK_S):
                look()
    except KeyboardInterrupt:
        pass  # the second; the summary says what was given up
    finally:
        runner.ask(Stop(drain=False, timeout_s=5))
        for number, handler in before.items():
            signal.signal(number, handler)
    return bool(interrupted)


class progress:  # noqa: N801 - used as a function
    """A progress line on a terminal's stderr; nothing elsewhere. Each call asks ``status``, where it is shown."""

    def __init__(self, quiet: bool, total: int | None, status: Callable[[], Status]) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        output = render.console(stderr=True)
        self._bar = Progress(*columns, console=output, transient=True, disable=quiet or not output.is_terminal)
        self._task = self._bar.add_task("starting", total=total)
        self._status, self._shown_s = status, -math.inf

    def __enter__(self) -> Callable[[], None]:
        self._bar.start()
        return self._look

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _look(self) -> None:
        """No more often than anyone sees."""
        if not self._bar.disable and monotonic() - self._shown_s >= LOOK_S:
            self._shown_s = monotonic()
            self._show(self._status())

    def _show(self, status: Status) -> None:
        composition = status.composition.name if status.composition else "–"
        rate = render.number(status.throughput_per_s, "/s")
        latency = render.number(status.latency_ms.mean, " ms")
        delivered = status.items.delivered
        text = f"{status.state}: composition {composition}, {delivered:,} items, {rate}, {latency}"
        self._bar.update(self._task, description=text, completed=delivered)
