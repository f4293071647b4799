"""Folders of processes that were killed go when another one makes its own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runtime.housekeeping import PREFIX, make_folder
from runtime.transport.local_calls import LocalServer


def test_what_a_killed_process_left_goes_with_the_next_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f"{PREFIX}{ended.pid}-abcd"
    (left / "inside").mkdir(parents=True)
    mine, other = Path(make_folder()), tmp_path / f"{PREFIX}demo-1"
    other.mkdir()
    server = LocalServer(lambda asked: asked)
    assert {each.name for each in tmp_path.iterdir()} == {mine.name, other.name, Path(server.address.folder).name}
    assert mine.name.startswith(f"{PREFIX}{os.getpid()}-")
    assert mine.stat().st_mode & 0o777 == 0o700
    server.close()
