"""The job of the tables runs from time to time and tells what it did; after failures it runs less often."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

from structlog.testing import CapturingLogger
from written_telemetry import write_items

from service.cli import serve
from service.daemon.daemon import Daemon
from service.daemon.table_job import TableJob
from tests.support.waiting import wait_until

DONE = '{"records": 7, "batch": 3, "files": {"items": 2, "windows": 3}}'
WORKS = f"import sys; open(sys.argv[4], 'w').write('{DONE}')"
FAILS = "import sys; sys.exit('Error: Spark needs Java 17 or 21 and found none')"


def job(folder: Path, program: str) -> tuple[TableJob, Callable[[], float | None]]:
    """One that takes a turn when it is told to."""
    write_items(folder, 0, [0.1])
    ticker = Mock(ending=False)
    made = TableJob([sys.executable, "-c", program], folder, 600.0, lambda _: ticker)
    made.start()
    return made, ticker.start.call_args.args[0]


def test_the_first_run_comes_after_the_pause_and_tells_what_it_did(tmp_path: Path) -> None:
    made, turn = job(tmp_path, WORKS)
    assert turn() == 600
    assert made.status.up_to is None
    assert turn() == 600
    status = made.status
    assert (status.state, status.records, status.batch, status.files) == ("waiting", 7, 3, 5)
    assert status.up_to is not None
    made.close()


def test_a_job_that_fails_says_why_and_is_tried_again_later_and_later(tmp_path: Path) -> None:
    made, turn = job(tmp_path, FAILS)
    assert [turn() for _ in range(4)] == [600, 1200, 2400, 4800]
    status = made.status
    assert (status.state, status.failed_in_a_row) == ("failed", 3)
    assert status.failure == "Spark needs Java 17 or 21 and found none"
    made.close()


def test_the_end_of_the_service_ends_a_job_that_is_at_work(tmp_path: Path) -> None:
    write_items(tmp_path, 0, [0.1])
    made = TableJob([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, 0.01)
    made.start()
    wait_until(lambda: made.status.state == "running")
    made.close()
    assert made._process is None or made._process.poll() is not None


def test_without_spark_serve_keeps_no_tables_and_says_how_to_have_them(tmp_path: Path, monkeypatch) -> None:
    said = CapturingLogger()
    monkeypatch.setattr(serve, "log", said)
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    daemon = SimpleNamespace(observation=SimpleNamespace(tables=None))
    with serve.tables(tmp_path, 10.0, cast(Daemon, daemon)):
        assert daemon.observation.tables is None
    assert said.calls[0].kwargs == {"missing": ["pyspark", "deltalake"], "remedy": "pip install 'recompose[spark]'"}
