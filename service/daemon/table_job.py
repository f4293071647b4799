"""Run the job that updates the tables of telemetry at intervals, in a separate process; report its result."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

import structlog

from service.daemon.supervision.ticker import Ticker
from service.schemas.base import utc_now
from service.schemas.status import TablesStatus

NICE = 10
"""Nice value of the job's process, so that the apps have priority."""
MOST_DOUBLINGS = 5
"""Number of times the pause doubles after failed runs in a row: from ten minutes to five hours."""
log = structlog.get_logger()


class TableJob:
    """The job: ``command`` runs on the telemetry in ``folder`` every ``every_s`` seconds, first after ``every_s``."""

    def __init__(
        self, command: Sequence[str], folder: Path, every_s: float, make_ticker: Callable[[str], Ticker] = Ticker
    ) -> None:
        self._command, self._folder, self._every_s = command, folder, every_s
        self._ticker = make_ticker("tables")
        self._waited = False
        self._failed = 0
        self._state_file = folder / ".tables.json"
        self._process: subprocess.Popen[bytes] | None = None
        self.status = TablesStatus(state="waiting")

    def start(self) -> None:
        self._ticker.start(self._turn)

    def close(self) -> None:
        """End the job at any point; the next run continues there."""
        self._ticker.end()
        self._kill()
        self._ticker.join(10.0)

    def _turn(self) -> float:
        if not self._waited:
            self._waited = True
            return self._every_s
        if not any((self._folder / "items").glob("*.parquet")):
            return self._every_s
        began_s, began = monotonic(), utc_now()
        self.status = self.status.model_copy(update={"state": "running"})
        reason = self._run()
        if self._ticker.ending:
            return self._every_s
        self._failed = 0 if reason is None else self._failed + 1
        told: dict[str, object] = {
            "state": "waiting" if reason is None else "failed",
            "failure": reason,
            "failed_in_a_row": self._failed,
        }
        if reason is None:
            told |= _done(self._state_file) | {"up_to": began, "duration_s": round(monotonic() - began_s, 1)}
        else:
            log.warning("telemetry tables not updated; trying again", reason=reason, failed_in_a_row=self._failed)
        self.status = self.status.model_copy(update=told)
        return float(self._every_s * 2 ** min(self._failed, MOST_DOUBLINGS))

    def _run(self) -> str | None:
        """Return why the process failed, if it did."""
        with tempfile.TemporaryFile() as talk:
            command = [*self._command, str(self._folder), "--once", "--state", str(self._state_file)]
            self._process = process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=talk, start_new_session=True
            )
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
            if self._ticker.ending:  # closed before there was a process to kill
                self._kill()
            if process.wait() == 0:
                return None
            talk.seek(0)
            lines = [line for line in talk.read().decode(errors="replace").splitlines() if line.strip()]
            return (lines[-1] if lines else f"exit code {process.returncode}").removeprefix("Error: ")[:300]

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def _done(file: Path) -> dict[str, object]:
    try:
        seen = json.loads(file.read_text())
        return {"records": seen["records"], "batch": seen["batch"], "files": sum(seen["files"].values())}
    except (OSError, ValueError, KeyError):
        return {}
