"""Lane detection: both divisions into stages agree, and both sides of a road are found."""

import os
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from apps.contract import App
from apps.frames import Frame
from apps.lane_detection import LaneDetection, LaneDetection4, LaneOptions, operators
from apps.lane_detection.app import side_of
from compositions.errors import RecomposeError

DATA = os.environ.get("RECOMPOSE_DATA")


def results(app: App, path: Path | None, count: int) -> list[Any]:
    app.setup()
    found = []
    for item in islice(app.items(path), count):
        for stage in app.stages:
            item = getattr(app, stage.name)(item)
        found.append(app.encode_result(item))
    return found


@pytest.mark.parametrize("search", ["both_sides", "spbench"])
def test_seven_stages_and_three_give_the_same(search: Any) -> None:
    options = LaneOptions(search=search)
    assert results(LaneDetection(options), None, 8) == results(LaneDetection4(options), None, 8)


def test_both_sides_of_the_drawn_road_are_found() -> None:
    found = results(LaneDetection4(), None, 40)
    assert sum(each["left"] and each["right"] for each in found) >= 0.9 * len(found)


@pytest.mark.skipif(not DATA, reason="RECOMPOSE_DATA is not set: there is no filmed road")
def test_both_sides_of_a_filmed_road_are_found() -> None:
    found = results(LaneDetection4(), Path(DATA or "") / "lane" / "solidWhiteRight.mp4", 60)
    assert sum(each["left"] and each["right"] for each in found) >= 0.8 * len(found)


def test_a_line_of_an_empty_road_is_found_where_it_was_drawn() -> None:
    """An independent drawing: one white line on black, whose ends come back within its width."""
    region = np.zeros((147, 639, 3), np.uint8)
    cv2.line(region, (100, 140), (250, 10), (255, 255, 255), 6)
    search = operators.SEARCHES["spbench"]
    edges = operators.canny_1(region)
    straight, pieces = operators.hough_t(edges, search), operators.hough_p(edges, search)
    lines = operators.canny_2(operators.bitwise(straight, pieces), search)
    assert len(lines) > 0
    assert {side_of(line) for line in lines.tolist()} == {"left"}
    slope = (10 - 140) / (250 - 100)
    assert np.allclose([(y2 - y1) / (x2 - x1) for x1, y1, x2, y2 in lines.tolist()], slope, atol=0.15)


def test_a_frame_too_flat_for_a_road_is_refused_with_a_sentence() -> None:
    frame = Frame(3, np.zeros((100, 640, 3), np.uint8))
    with pytest.raises(RecomposeError, match="frame 3 is 640×100; its height must be more than a third"):
        LaneDetection().segment(frame)


def test_a_file_that_is_no_picture_is_a_dead_letter_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    cv2.imwrite(str(tmp_path / "b.png"), np.zeros((360, 640, 3), np.uint8))
    app = LaneDetection()
    broken, sound = app.items(tmp_path)
    with pytest.raises(RecomposeError, match=r"a\.png' is no picture"):
        app.segment(broken)
    assert app.segment(sound)[1].shape == (147, 639, 3)
