"""Record the costs of a built-in app's stages for real inputs: ``python -m lab.gym.record APP --data DIR --out FILE``.

The stages run one after the other in this thread, over the inputs in their own order, and again from the first where
there are fewer inputs than items. The table has a row an item and two columns a stage, both in microseconds: ``NAME``,
the computing time of this thread, which does not count what other processes do, and ``NAME.wall``, the time that
passed. Items on which a stage fails are left out and counted.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from apps.contract import App
from apps.registry import create
from compositions.errors import RecomposeError
from compositions.model import StageKind

WARM_UP = 20
"""Number of first items that are left out, because caches, lazy tables and the branch predictor are still cold."""
_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Recording:
    """The rows of a table: computing time and elapsed time of each item and stage, in microseconds."""

    stages: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]
    inputs: int
    """Number of different inputs that were read, including those of the first items."""
    failed: int

    def text(self, comments: Mapping[str, str]) -> str:
        """Return the table as CSV, with these comments before its header."""
        head = [f"# {key}: {value}" for key, value in comments.items()]
        names = ",".join(name for stage in self.stages for name in (stage, f"{stage}.wall"))
        return "\n".join([*head, names, *(",".join(map(str, row)) for row in self.rows), ""])


def record(app: App, data: Path | None, items: int) -> Recording:
    """Run the stages for this number of items after the first ones, which are left out.

    Raises: RecomposeError when a stage keeps a state, there are no inputs, or all of them fail.
    """
    states = [stage.name for stage in app.stages if stage.kind is not StageKind.STATELESS]
    if states:
        raise RecomposeError(f"stage {states[0]!r} of app {app.name!r} keeps a state; only stages without are recorded")
    app.prepare()
    app.setup()
    _one_thread()
    stages = tuple(stage.name for stage in app.stages)
    rows: list[tuple[int, ...]] = []
    inputs = failed = 0
    for first_round, item in _again_and_again(app, data):
        inputs += first_round
        try:
            rows.append(_row(app, stages, item))
        except RecomposeError:
            failed += 1
            if not rows and failed >= items:
                raise
        if len(rows) == items + WARM_UP:
            break
    return Recording(stages, tuple(rows[WARM_UP:]), inputs, failed)


def _again_and_again(app: App, data: Path | None) -> Iterator[tuple[bool, Any]]:
    first_round = True
    while True:
        found = False
        for item in app.items(data):
            found = True
            yield first_round, item
        if not found:
            raise RecomposeError(f"app {app.name!r} finds no inputs in {data}")
        first_round = False


def _row(app: App, stages: Sequence[str], item: Any) -> tuple[int, ...]:
    times_us: list[int] = []
    for stage in stages:
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        item = getattr(app, stage)(item)
        times_us += [round((time.thread_time() - cpu_s) * _MICROSECONDS)]
        times_us += [round((time.perf_counter() - wall_s) * _MICROSECONDS)]
    return tuple(times_us)


def _one_thread() -> None:
    """Make OpenCV compute in this thread, whose time is measured; apps without it do not need it."""
    with suppress(ImportError):
        import cv2

        cv2.setNumThreads(1)


def _processor() -> str:
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        for name in islice(names, 1):
            return name
    return platform.processor() or platform.machine()


def main(words: Sequence[str]) -> None:
    """Record one app as requested on the command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.gym.record", description="Record the costs of an app's items.")
    parser.add_argument("app", help="name of a built-in app with stages that keep no state")
    parser.add_argument("--data", type=Path, help="file or folder of its inputs (default: the app's own)")
    parser.add_argument("--out", type=Path, required=True, help="table to write")
    parser.add_argument("--items", type=int, default=1000, help="number of items (default 1000)")
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="KEY=VALUE", help="app option")
    given = parser.parse_args(words)
    options = dict(each.partition("=")[::2] for each in given.options)
    app = create(given.app, options)
    recording = record(app, given.data, given.items)
    comments = {
        "app": " ".join([given.app, *(f"-o {key}={Path(value).name}" for key, value in options.items())]),
        "data": f"{given.data.name if given.data else 'its own'}, {recording.inputs} inputs, {recording.failed} failed",
        "machine": f"{_processor()}, Python {platform.python_version()}",
        "recorded": f"{date.today().isoformat()}, recompose {version('recompose')}",
    }
    given.out.write_text(recording.text(comments), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (RecomposeError, OSError) as error:
        sys.exit(str(error))
