"""Videos and tables that apps write: what a player and a spreadsheet find in them."""

import csv
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from apps.contract import App
from apps.video_out import Shown, video_output
from compositions.errors import RecomposeError
from compositions.model import Stage
from runtime.dispatch.outcomes import Delivered
from service.runner.wiring.sink import ResultSink


def show(value: tuple[int, tuple[int, int]]) -> Shown:
    number, (height, width) = value
    return Shown(np.full((height, width, 3), 100, np.uint8), [[number, "a, b"]])


def test_a_video_and_its_table(tmp_path: Path) -> None:
    output = video_output(tmp_path / "x.avi", ("frame", "what"), show)
    for number in range(7):
        output.write(number, (number, (48, 64)))
    output.close()
    video = cv2.VideoCapture(str(tmp_path / "x.avi"))
    assert sum(1 for _ in iter(lambda: video.read()[0], False)) == 7
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["frame", "what"], *[[str(number), "a, b"] for number in range(7)]]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match="give a file in a folder that exists"):
        video_output(tmp_path / "none" / "x.avi", ("frame",), show)


class Sized(App):
    name = "sized"
    stages = (Stage("any"),)

    def open_output(self, path: Path) -> Any:
        return video_output(path, ("frame", "what"), show)


def test_a_frame_of_another_size_is_a_dead_letter_and_the_others_are_written(tmp_path: Path) -> None:
    letters = tmp_path / "dead.jsonl"
    sink = ResultSink(Sized(), lambda payload, start, stop: payload[start:stop], str(tmp_path / "x.avi"), str(letters))
    for serial, size in enumerate([(48, 64), (24, 32), (48, 64)]):
        sink.take(Delivered(0.0, serial, (0.0,), 0.0, "1", [(serial, size)]))
    sink.close()
    assert "a frame of 32×24 does not fit the video of 64×48" in letters.read_text()
    assert [(result.error is not None) for result in sink.buffer] == [False, True, False]
    video = cv2.VideoCapture(str(tmp_path / "x.avi"))
    assert sum(1 for _ in iter(lambda: video.read()[0], False)) == 2
