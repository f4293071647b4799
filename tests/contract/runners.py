"""Runners in processes of their own, to be killed, stopped, or cut off while another goes on with their run."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

RUNNER = """
import json, sys
answers, sys.stdout = sys.stdout, sys.stderr  # what another thread logs would come into the middle of an answer
from datapipe.sinks.parquet_files import ParquetFiles
from datapipe.sinks.port import AT_ONCE
from service.schemas.spec import RunSpec, SinkSpec, SourceSpec
from service.runner.rpc.requests import PushMany, ReadResults, ReadStatus, Start
from service.runner.runner import Runner

epoch, folder, given = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
how = {"app": "synthetic", "durability": "exactly-once", "options": {"compute": "wait", "total_ms": 3}}
if len(sys.argv) > 4:
    ParquetFiles.gather, how["sink"] = AT_ONCE, SinkSpec(kind=sys.argv[4], path=sys.argv[5])
    how["options"]["total_ms"] = 120  # so that there is a middle of its work
how |= {"source": SourceSpec(kind="push"), "run": "r", "epoch": epoch, "journals": folder, "pool": "local", **given}
runner = Runner(RunSpec(**how))
runner.ask(Start())
print("up", file=answers, flush=True)
for line in sys.stdin:
    ask, *args = json.loads(line)
    if ask == "push":
        taken = runner.ask(PushMany(tuple(args)))
        answer = [taken.serials, str(taken.refusal)]
    elif ask == "results":
        answer = [row.serial for row in runner.ask(ReadResults(None, 1000))]
    else:
        answer = runner.ask(ReadStatus()).health.failure
    print(json.dumps(answer), file=answers, flush=True)
"""


class Process:
    def __init__(self, epoch: int, folder: Path, *sink: str, **spec: Any) -> None:
        """``sink``: its kind and path; ``spec``: what else the run is to be."""
        args = [sys.executable, "-c", RUNNER, str(epoch), str(folder), json.dumps(spec), *sink]
        self._process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._read() == "up"

    def ask(self, *question: Any) -> Any:
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._read())

    def _read(self) -> str:
        line = self._process.stdout.readline()
        assert line, "the runner has ended"
        return str(line).strip()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    def stop(self) -> None:
        """Until ``SIGCONT``. It does nothing more when this returns: one that was only sent the signal still may."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            stream.close()


def stopped_between_commits(runner: Process, *databases: Path) -> bool:
    """Within one it would keep the lock, and whoever follows waits for its end: the service kills it."""
    runner.stop()
    if all(_is_free(each) for each in databases):
        return True
    runner.signal(signal.SIGCONT)
    return False


def _is_free(database: Path) -> bool:
    with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return False
    return True


def frozen_for_a_while() -> None:
    """As long as ``RECOMPOSE_FREEZE_S`` says, beyond what the other runner takes."""
    time.sleep(float(os.environ.get("RECOMPOSE_FREEZE_S", "0")))
