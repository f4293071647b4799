"""The daemon is killed while it writes: what was committed is there, and the file is sound."""

import sqlite3
import subprocess
import sys
from pathlib import Path

from service.daemon.store.store import DaemonStore

WRITER = """
import sys
from pathlib import Path
from profiler.slo import Slo
from tests.support.fakes import decision
from service.daemon.store.store import DaemonStore

state, number = DaemonStore(Path(sys.argv[1])), 0
while True:
    number += 1
    state.put_decisions("words", [decision(number, "start", "x" * 2500, "y" * 2500, None)])
    state.put_slo("words", Slo("latency", float(number)))
    print(number, flush=True)
"""


def test_killed_between_and_inside_transactions(tmp_path: Path) -> None:
    committed = 0
    for round_length in (1, 7, 40):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        committed = [int(writer.stdout.readline()) for _ in range(round_length)][-1]
        writer.kill()
        writer.wait()
        writer.stdout.close()

    with sqlite3.connect(tmp_path / "recompose.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    state = DaemonStore(tmp_path)
    stored = state.slo("words")
    assert stored is not None
    assert isinstance(stored.slo.target, float)
    assert stored.slo.target >= committed
    assert len(state.decisions("words", 1000)) >= committed
    state.close()
