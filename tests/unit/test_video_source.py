"""Source ``video``, also where there is none or a camera goes away; and videos and tables that apps write."""

import csv
import itertools
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import cv2
import numpy as np
import pytest

from apps.contract import App
from apps.video import Frames, open_capture
from apps.video_out import Shown, video_output
from compositions.errors import RecomposeError
from compositions.model import Stage
from datapipe.source_kinds import open_source
from datapipe.sources.sources import Video
from runtime.dispatch.outcomes import Delivered
from service.runner.wiring.sink import ResultSink


class Brightness(App):
    name = "brightness"
    stages = (Stage("mean"),)

    def from_frame(self, frame: Any, number: int) -> tuple[int, float]:
        return number, round(float(frame.mean()))


def capture(count: int, announced: int = 0, opened: bool = True) -> Mock:
    """One that gives ``count`` frames."""
    frames = iter([(True, np.zeros((4, 6, 3), np.uint8))] * count)
    camera = Mock(read=lambda: next(frames, (False, None)), get=lambda what: float(announced))
    camera.isOpened.return_value = opened
    return camera


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48), True)
    for number in range(10):
        writer.write(np.full((48, 64, 3), 20 * number, np.uint8))
    writer.release()
    return path


def clock() -> Any:
    return itertools.count().__next__


@pytest.mark.parametrize(("loop", "count"), [(False, 10), (True, 25)])
def test_the_frames_of_a_file_in_order_with_numbers_that_go_on(clip: Path, loop: bool, count: int) -> None:
    source = open_source(Brightness(), "video", str(clip), clock=clock(), loop=loop)
    values = [arrival.value for arrival in itertools.islice(source, 25)]
    assert [number for number, _ in values] == list(range(count))
    assert [mean for _, mean in values] == pytest.approx([20 * (number % 10) for number in range(count)], abs=3)


def test_closing_ends_it_after_the_frame_under_way(clip: Path) -> None:
    source = open_source(Brightness(), "video", str(clip), clock=clock())
    taken = iter(source)
    next(taken)
    source.close()
    assert list(taken) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "does not exist; give a file, the number of a camera, or a URL"),
        (b"", "has no readable frames; it is damaged"),
        (b"this is no video" * 100, "has no readable frames; it is damaged"),
    ],
)
def test_what_is_no_video_is_refused_at_once(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    path = tmp_path / "broken.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecomposeError, match=sentence):
        open_source(Brightness(), "video", str(path), clock=clock())


def test_an_app_that_takes_no_video_and_a_video_without_a_place_are_refused_at_once(clip: Path) -> None:
    with pytest.raises(RecomposeError, match="app 'sized' does not accept video"):
        open_source(Sized(), "video", str(clip), clock=clock())
    with pytest.raises(RecomposeError, match="source video needs a path"):
        open_source(Brightness(), "video", None, clock=clock())


def test_a_truncated_file_gives_what_it_has_and_then_its_reason(clip: Path) -> None:
    clip.write_bytes(clip.read_bytes()[: clip.stat().st_size // 2])
    frames = iter(Frames(str(clip), lambda place: capture(5, announced=10)))
    assert len([next(frames) for _ in range(5)]) == 5
    with pytest.raises(RecomposeError, match="ended after frame 5 of 10; it is truncated or damaged"):
        next(frames)


def test_a_frame_or_two_less_than_announced_is_no_damage(clip: Path) -> None:
    assert len(list(Frames(str(clip), lambda place: capture(98, announced=100)))) == 98


def test_a_camera_that_goes_away_ends_with_its_reason() -> None:
    camera = capture(3)
    source = Video(Brightness(), "0", loop=True, clock=clock(), capture=lambda place: camera)
    seen: list[Any] = []
    with pytest.raises(RecomposeError, match="'0' sent no more frames after 3"):
        seen.extend(source)
    assert (len(seen), camera.release.called) == (3, True)


@pytest.mark.parametrize("frames", [0, 3])
def test_the_password_of_a_camera_is_in_no_sentence(frames: int) -> None:
    with pytest.raises(RecomposeError, match=r"video 'rtsp://camera/1' (has|sent) no ") as refused:
        list(Frames("rtsp://me:s3/cret@camera/1", lambda place: capture(frames, opened=frames > 0)))
    assert "cret" not in str(refused.value)


def test_a_url_that_nobody_answers_is_refused() -> None:
    capture = open_capture("http://127.0.0.1:9/none.mp4")
    assert not capture.isOpened()


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
    assert "a frame has 32×24 pixels; must be 64×48" in letters.read_text()
    assert [(result.error is not None) for result in sink.buffer] == [False, True, False]
    video = cv2.VideoCapture(str(tmp_path / "x.avi"))
    assert sum(1 for _ in iter(lambda: video.read()[0], False)) == 2
