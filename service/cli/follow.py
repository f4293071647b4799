"""Follow a run in a terminal from its start to its end."""

import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import click

from runtime.housekeeping import settle
from service.runner.rpc.port import Patient
from service.runner.rpc.requests import ReadStatus, Start, Stop
from service.runner.runner import Runner
from service.schemas.results import CheckedItems, Summary
from service.schemas.status import Status

FAILED, ALL_ITEMS_FAILED, UNWRITTEN, SLO_MISSED, INTERRUPTED = 1, 3, 4, 5, 130
CODES = """Exit codes: 0 done; 1 the run failed; 2 wrong usage; 3 every item failed; 4 results could not be written, as
they are not JSON data; 5 the objective was not met at the end (with --fail-on-slo); 130 interrupted: accepted items
were delivered, unless the run was interrupted twice."""


class Ending(click.ClickException):
    """Error that ends the command with the run's last message and exit code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = code  # type: ignore[misc]  # main reads it from the error


@contextmanager
def first_is_noted() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether there was a Ctrl-C, if nothing else handles it; a second one interrupts."""
    noted = False

    def note(*_: Any) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ending(summary: Summary, *, interrupted: bool, fail_on_slo: bool) -> Ending | None:
    """Return the most severe failure of a run as an error; None if there is none."""
    items = summary.items
    if summary.failure:
        return Ending(FAILED, summary.failure.strip().splitlines()[-1])
    if items and (items.lost or items.misordered):
        return Ending(FAILED, f"{items.lost} items lost, {items.misordered} out of order")
    if items and items.failed and not items.delivered:
        return Ending(ALL_ITEMS_FAILED, f"all {items.failed} items failed; the first: {_last_line(summary)}")
    if summary.unwritten:
        return Ending(UNWRITTEN, f"{summary.unwritten} results could not be written; the first: {_last_line(summary)}")
    if interrupted:
        return Ending(INTERRUPTED, f"interrupted; {_left(items) if items else '0 items delivered'}")
    if fail_on_slo and summary.slo_status in ("violated", "infeasible"):
        return Ending(SLO_MISSED, f"the objective is {summary.slo_status} at the end of the run")
    return None


def _left(items: CheckedItems) -> str:
    """Return the numbers of delivered items, and of accepted items that a second interruption gave up."""
    given_up = items.accepted - items.delivered - items.failed - items.shed
    more = f", {given_up} accepted items given up" if given_up else ""
    return f"{items.delivered} items delivered{more}"


def _last_line(summary: Summary) -> str:
    return (summary.first_error or "not known").strip().splitlines()[-1]


LOOK_S = 0.25


def follow(runner: Runner, quiet: bool) -> bool:
    """Run it; return whether it was interrupted. The first Ctrl-C or SIGTERM drains, the second gives up the rest."""
    interrupted = 0

    def interrupt(*_: Any) -> None:
        nonlocal interrupted
        interrupted += 1
        if interrupted > 1:
            raise KeyboardInterrupt
        threading.Thread(target=runner.ask, args=(Stop(),), daemon=True).start()

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    settle()  # the process serves this run alone
    runner.ask(Start())
    asked = Patient(runner)
    try:
        with progress(quiet, runner.spec.ending.items, lambda: asked.ask(ReadStatus())) as look:
            while not runner.wait(LOOK_S):
                look()
    except KeyboardInterrupt:
        pass  # the second interrupt; the summary says what was given up
    finally:
        runner.ask(Stop(drain=False, timeout_s=5))
        for number, handler in before.items():
            signal.signal(number, handler)
    return bool(interrupted)


@contextmanager
def progress(quiet: bool, total: int | None, status: Callable[[], Status]) -> Iterator[Callable[[], None]]:
    """Show a line on a terminal's stderr. The yielded function asks ``status`` only as often as a user can see."""
    if quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    from service.cli import render  # imported here: a run without a display needs no library for it

    shown_s = -math.inf
    with render.spinner() as bar:
        task = bar.add_task("starting", total=total)

        def look() -> None:
            nonlocal shown_s
            if monotonic() - shown_s >= LOOK_S:
                shown_s, seen = monotonic(), status()
                bar.update(task, description=render.progress_text(seen), completed=seen.items.delivered)

        yield look
