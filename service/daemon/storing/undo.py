"""All or nothing: what was stored first is taken back when what follows fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from service.bodies.refusals import NotStoredError

log = structlog.get_logger()


@contextmanager
def undone_by_failure(put_back: Callable[[], None]) -> Iterator[None]:
    try:
        yield
    except Exception:
        try:
            put_back()
        except NotStoredError as error:  # the disk filled up between the two: the log is the only one left to tell
            log.warning("a change that failed stays stored", error=str(error))
        raise
