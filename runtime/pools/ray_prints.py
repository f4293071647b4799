"""What the processes that Ray starts print, on all machines, for one who hears it.

By itself Ray would print it on our stdout, where results go, and as much as there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ray._private.ray_logging import global_worker_stdstream_dispatcher as _dispatcher

Hear = Callable[[str, str], None]
"""Takes who printed, and the line; called by a thread of Ray's."""

_RAYS_OWN, _OURS = "ray_print_logs", "recompose"
_ON_ITS_WAY_S = 1.0
"""Ray looks for files twice a second, for lines ten times."""


def listen(hear: Hear) -> None:
    """From now on; Ray must have been told to pass on what is printed."""
    _dispatcher.remove_handler(_RAYS_OWN)
    _dispatcher.add_handler(_OURS, lambda batch: _pass_on(hear, batch))


def hear_out() -> None:
    """Waits until what was printed before has come, if anyone listens."""
    if any(name == _OURS for name, _ in _dispatcher.handlers):
        time.sleep(_ON_ITS_WAY_S)  # Ray tells nobody how far it is


def forget() -> None:
    _dispatcher.remove_handler(_OURS)


def _pass_on(hear: Hear, batch: dict[str, Any]) -> None:
    """What has no name is Ray's own."""
    if not batch.get("actor_name"):
        return
    where = "" if batch["ip"] == batch["localhost"] else f" on {batch['ip']}"
    for line in batch["lines"]:
        hear(f"{batch['actor_name']} pid={batch['pid']}{where}", line)
