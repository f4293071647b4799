"""A cluster that loses its head, or has GPUs: what a pool's sockets tell at once does not wait for Ray."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def test_a_stream_does_not_wait_for_ray() -> None:
    """In a process of its own, as Ray ends one whose head is gone; in a folder of its own, so that nobody else finds
    this cluster, and with a short name, for sockets are in it."""
    with tempfile.TemporaryDirectory(prefix="rc") as folder:
        environment = {**os.environ, "RAY_TMPDIR": folder, "PYTHONPATH": str(HERE.parents[1])}
        command = [sys.executable, str(HERE / "ray_scenes.py")]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)
    for told in ("each worker saw its device", "the worker that was left answered"):
        assert told in ran.stdout, ran.stdout + ran.stderr[-4000:]
