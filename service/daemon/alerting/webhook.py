"""Posts alerts to an address, one after the other, and tries again where it is away."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

import httpx
import structlog

from service.bodies.alerts import Alert
from service.bodies.base import plain

WAITING = 100
"""Alerts that may wait for a webhook that is away; more are given up."""
PATIENCE_S = 5.0
WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Before each further attempt."""
AGAIN = frozenset({408, 425, 429})
"""Refusals that another attempt may change; those of 500 and more are too."""
log = structlog.get_logger()
Post = Callable[[str, object], int]
"""Posts JSON data to an address. Returns the status. Raises: httpx.HTTPError; ValueError for what can be no address."""


def _post(url: str, body: object) -> int:
    return httpx.post(url, json=body, timeout=PATIENCE_S, trust_env=False).status_code


class Webhook:
    """Thread-safe; its thread begins with the first alert."""

    def __init__(self, post: Post = _post, waits_s: Sequence[float] = WAITS_S) -> None:
        self.fault: str | None = None
        """Why the last one could not be posted."""
        self._post, self._waits_s = post, waits_s
        self._queue: queue.Queue[tuple[str, Alert]] = queue.Queue(WAITING)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def send(self, url: str, alert: Alert) -> None:
        """Returns at once."""
        try:
            self._queue.put_nowait((url, alert))
        except queue.Full:
            self.fault = f"{WAITING} alerts wait for the webhook; later ones were given up"
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """No further attempt begins."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                url, alert = self._queue.get(timeout=1.0)
            except queue.Empty:
                continue
            self.fault = self._delivered(url, alert)
            if self.fault is not None:
                log.warning("alert not posted", app=alert.app, reason=self.fault)

    def _delivered(self, url: str, alert: Alert) -> str | None:
        """Why it was not; None when it was."""
        said = "the service ended"
        for wait_s in (0.0, *self._waits_s):
            if self._ended.wait(wait_s):
                break
            try:
                status = self._post(url, plain(alert))
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # of a host that is no name: UnicodeError
                said = f"no answer from the webhook ({type(error).__name__})"
                continue
            if 200 <= status < 300:
                return None
            said = f"the webhook answered {status}"
            if status < 500 and status not in AGAIN:
                break
        return said
