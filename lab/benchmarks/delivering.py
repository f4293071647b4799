"""A run that a benchmark watches: from its first delivery to its stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from service.runner.rpc.requests import ReadStatus, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import RunSpec

LOOK_S = 0.005


@contextmanager
def delivering(spec: RunSpec, up_s: float) -> Iterator[Runner]:
    """Raises: TimeoutError when nothing was delivered within ``up_s``."""
    runner = Runner(spec)
    runner.ask(Start())
    try:
        until_s = time.monotonic() + up_s
        while not runner.ask(ReadStatus()).items.delivered:
            if time.monotonic() > until_s:
                raise TimeoutError(f"no delivery within {up_s:g} s: {runner.ask(ReadStatus()).health.failure}")
            time.sleep(LOOK_S)
        yield runner
    finally:
        runner.ask(Stop(drain=False))
