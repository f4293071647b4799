"""A standalone cluster of two worker processes on this machine runs what a laptop runs, unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from telemetry_records import random_items, write
from test_ingest_spark import write_photos

from tests.support.waiting import eventually

GIVE_UP_S = 180
SUBMITTED = Path(__file__).parents[2] / "deploy" / "submit.py"


@contextmanager
def process(log: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A Spark daemon, ended with the block; gives its log."""
    home = Path(pyspark.__file__).parent
    own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(log.parent / "work")}
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
    command += ["--port", "0", "--webui-port", "0", *arguments]
    with log.open("wb") as output:
        how = {"stdout": output, "stderr": output, "env": os.environ | own, "start_new_session": True}
        job = subprocess.Popen(command, **how)
    try:
        yield log
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(60)


def said(log: Path, words: str) -> str:
    """The line with these words, as soon as it is there."""
    return eventually(lambda: [each for each in log.read_text().splitlines() if words in each], seconds=GIVE_UP_S)[0]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A master and two workers of one core each; gives the master's URL."""
    with process(tmp_path / "master.log", "master.Master") as log:
        master = "spark://" + said(log, "Starting Spark master at").rsplit("spark://", 1)[1].strip()
        worker = ("worker.Worker", "--cores", "1", "--memory", "1g", master)
        with process(tmp_path / "first.log", *worker) as first, process(tmp_path / "second.log", *worker) as second:
            said(first, "Successfully registered with master")
            said(second, "Successfully registered with master")
            yield master


def ran(command: list[str]) -> str:
    own = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_S, check=False, env=os.environ | own)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(500)
def test_ingest_and_telemetry_run_on_both_workers(cluster: str, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", 80)
    ingest = ["ingest", "ferret", str(photos), "--out", str(tmp_path / "data"), "--master", cluster]
    out = ran([sys.executable, "-m", "service.cli", *ingest])
    assert "80 files computed" in out
    for worker in ("first", "second"):
        assert said(tmp_path / f"{worker}.log", "Asked to launch executor"), "both workers had a part in it"
    write(tmp_path / "telemetry", "x", random_items(seed=1, count=300, span_s=30))
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", cluster]
    out = ran([*submit, str(SUBMITTED), "telemetry", str(tmp_path / "telemetry"), "--batch"])
    assert int(out.split(": ")[1].split()[0]) > 30, out
