"""Real video and files through the front door: what comes out is what a plain loop makes, and others can read it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import pytest
from click.testing import CliRunner

from apps.registry import create
from apps.video import Frames
from lab.benchmarks.plain import by_item
from runtime.pools.set_up import set_up
from service.cli import main
from service.runner.validation.resolution import shipped

DATA = os.environ.get("RECOMPOSE_DATA")
pytestmark = pytest.mark.usefixtures("logging_as_it_is")
needs_data = pytest.mark.skipif(not DATA, reason="RECOMPOSE_DATA is not set: the filmed persons and texts are not here")
FAST = {"denoise": "fast"}
APPS: list[tuple[str, dict[str, Any], int]] = [
    ("person_recognition", FAST, 5),
    ("face_recognizer", {"scale": 1.1, "neighbours": 5}, 8),
    ("lane_detection", {}, 12),
    ("lane_detection_4", {}, 12),
    ("bzip2", {"block_bytes": 20_000}, 30),
    ("military_server", {"narrowest": 1, "widest": 4}, 300),
]
"""Name, options, and how many items are enough to be out of order."""


def patterns() -> Iterator[Any]:
    """All compositions of each app; the last one, with most workers, for every change."""
    for name, options, count in APPS:
        *others, last = (each.name for each in shipped(type(create(name, options))).compositions)
        yield pytest.param(name, options, count, last, id=f"{name}-{last}")
        for each in others:
            yield pytest.param(name, options, count, each, id=f"{name}-{each}", marks=pytest.mark.long)


def sequential(name: str, options: dict[str, Any], count: int) -> list[Any]:
    create(name, options).prepare()
    app = set_up(partial(create, name, options), [stage.name for stage in create(name, options).stages])
    return [app.encode_result(value) for value in by_item(app, islice(app.items(None), count))]


@pytest.mark.parametrize(("name", "options", "count", "composition"), [*patterns()])
def test_every_composition_gives_what_a_loop_over_the_stages_gives(
    name: str, options: dict[str, Any], count: int, composition: str, tmp_path: Path
) -> None:
    """Frame hashes and rows; for bzip2 the size and check sum of every block."""
    out = tmp_path / "out.jsonl"
    given = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    recompose(name, "--composition", composition, "--items", str(count), "--out", str(out), *given)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["value"] for line in lines] == sequential(name, options, count)


def recompose(*words: str) -> None:
    done = CliRunner().invoke(main, ["run", *words, "--pool", "local"])
    assert done.exit_code == 0, done.output


@needs_data
def test_persons_on_a_users_film_under_an_slo(tmp_path: Path) -> None:
    """On real Ray: a video that plays, with all frames, and the table beside it equal to the sequential run's."""
    clip, out = tmp_path / "clip.avi", tmp_path / "faces.avi"
    film = Frames(str(Path(DATA or "") / "person" / "short_hamilton_clip.mp4"))
    writer = cv2.VideoWriter(str(clip), cv2.VideoWriter.fourcc(*"MJPG"), 24, (640, 360), True)
    for _, frame in zip(range(12), film, strict=False):
        writer.write(frame)
    writer.release()
    training = f"training={DATA}/person"
    app = ["person_recognition", "-o", "denoise=fast", "-o", training, "--source", f"video:{clip}", "--out"]
    command = [sys.executable, "-m", "service.cli", "run", "--slo", "latency=600ms", *app, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    assert sum(1 for _ in Frames(str(out))) == 12
    recompose("--slo", "latency=600ms", *app, str(tmp_path / "plain.csv"))
    assert out.with_suffix(".csv").read_text() == (tmp_path / "plain.csv").read_text()


@needs_data
def test_a_text_compressed_by_several_workers_is_what_bunzip2_gives_back(tmp_path: Path) -> None:
    text, packed, back = Path(DATA or "") / "text" / "lcet10.txt", tmp_path / "text.bz2", tmp_path / "back"
    how = ("--composition", "3", "-o", "block_bytes=20000")
    recompose("bzip2", "--source", f"replay:{text}", *how, "--out", str(packed))
    assert shutil.which("bunzip2"), "Debian's package bzip2 has it"
    assert subprocess.run(["bunzip2", "-c", packed], stdout=subprocess.PIPE, check=True).stdout == text.read_bytes()
    recompose("bunzip2", "--source", f"replay:{packed}", "--out", str(back))
    assert back.read_bytes() == text.read_bytes()
