"""A run from its start to its end, as its user sees it in a terminal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from runtime.garbage import settle
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
        with _progress(quiet, runner.spec.items) as show:
            while not runner.wait(LOOK_S):
                show(asked.ask(ReadStatus()))
    except KeyboardInterrupt:
        pass  # the second; the summary says what was given up
    finally:
        runner.ask(Stop(drain=False, timeout_s=5))
        for number, handler in before.items():
            signal.signal(number, handler)
    return bool(interrupted)


class _progress:  # noqa: N801 - used as a function
    """A progress line on a terminal's stderr; nothing elsewhere."""

    def __init__(self, quiet: bool, total: int | None) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        output = render.console(stderr=True)
        self._bar = Progress(*columns, console=output, transient=True, disable=quiet or not output.is_terminal)
        self._task = self._bar.add_task("starting", total=total)

    def __enter__(self) -> Callable[[Status], None]:
        self._bar.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _show(self, status: Status) -> None:
        composition = status.composition.name if status.composition else "–"
        rate = render.number(status.throughput_per_s, "/s")
        latency = render.number(status.latency_ms.mean, " ms")
        delivered = status.items.delivered
        text = f"{status.state}: composition {composition}, {delivered:,} items, {rate}, {latency}"
        self._bar.update(self._task, description=text, completed=delivered)
