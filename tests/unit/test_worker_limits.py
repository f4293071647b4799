"""How the kernel keeps a worker to its memory: by a control group of its own, or by its data. Real processes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TAKE = """
try:
    taken = bytearray(400_000_000)
except MemoryError:
    print("no memory")
"""


def said(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_allocation_beyond_the_limit_of_data_fails() -> None:
    done = said(f"from runtime.pools import limits\nlimits._limit_data(limits.Limits(200)){TAKE}")
    assert done.stdout.strip() == "no memory", done.stderr


def test_a_group_of_its_own_ends_a_process_that_takes_more() -> None:
    enter = "from runtime.pools import limits\nprint(limits._enter_group(limits.Limits(200)), flush=True)"
    done = said(f"{enter}{TAKE}taken[::4096] = b'x' * len(taken[::4096])")
    if "True" not in done.stdout:
        pytest.skip("no control group for memory can be made here")
    assert done.returncode == -9


def test_the_watch_ends_a_process_with_a_sentence() -> None:
    hold = "from runtime.pools.limits import Limits, hold\nimport time\nhold(Limits(100), 'w1')"
    done = said(f"{hold}\nkept = b'x' * 108_000_000\ntime.sleep(30)")
    assert done.returncode == 76
    assert "worker w1 (pid " in done.stderr
    assert "MB of memory, and worker_memory_mb is 100" in done.stderr
