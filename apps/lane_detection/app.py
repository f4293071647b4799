"""Lane detection (SPBench): the same operators as seven stages between source and sink, or as three.

SPBench counts source and sink, which are not stages here: nine operators, or four with its sink.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from apps.contract import App, Options, Output
from apps.frames import Frame, frames_of, intact, scaled
from apps.lane_detection import operators
from apps.lane_detection.operators import Image, Lines
from apps.samples import cache_dir
from apps.video_out import Shown, video_output, write_video
from compositions.errors import RecomposeError
from compositions.model import Stage

WIDTH, HEIGHT = 640, 360
FRAMES, FRAMES_PER_S = 150, 25.0
HORIZON = 200
"""The row of the horizon, where the road ends."""
RECIPE = "v1"
SEED = 7


def sample_road() -> Path:
    """Return an MJPG video of 150 frames, 640×360: a road that bends, with two marked sides, noise and a sky."""
    place = cache_dir() / f"road-{RECIPE}.avi"
    if not place.exists():
        noise = np.random.default_rng(SEED)
        write_video(place, (_frame(number, noise) for number in range(FRAMES)), (WIDTH, HEIGHT), FRAMES_PER_S)
    return place


def _frame(number: int, noise: np.random.Generator) -> Image:
    image = np.full((HEIGHT, WIDTH, 3), (90, 160, 90), np.uint8)
    image[:HORIZON] = (220, 190, 150)
    vanishing = WIDTH / 2 + 60 * np.sin(2 * np.pi * number / FRAMES)
    road = np.array([[40, HEIGHT], [vanishing - 12, HORIZON], [vanishing + 12, HORIZON], [WIDTH - 40, HEIGHT]])
    cv2.fillPoly(image, [road.astype(np.int32)], (105, 105, 105))
    for foot in (80, WIDTH - 80):
        cv2.line(image, (foot, HEIGHT), (round(vanishing), HORIZON), (240, 240, 240), 6, cv2.LINE_AA)
    _dashes(image, number, vanishing)
    return np.clip(image + noise.normal(0, 4, image.shape), 0, 255).astype(np.uint8)


def _dashes(image: Image, number: int, vanishing: float) -> None:
    """Return the marks in the middle of the road, which come closer."""
    for dash in range(6):
        near = (dash + number / 10 % 1) / 6
        begin, end = HORIZON + (HEIGHT - HORIZON) * near**2, HORIZON + (HEIGHT - HORIZON) * min(1.0, near + 0.06) ** 2
        cv2.line(image, (round(vanishing), round(begin)), (round(vanishing), round(end)), (230, 230, 230), 4)


COLUMNS = ("frame", "x1", "y1", "x2", "y2", "side")
INPUT_CLASSES = {"test": 25, "small": 125, "medium": 500, "large": 1_500, "huge": 3_000}
"""Numbers of frames: 1, 5, 20, 60 and 120 s at 25 frames/s. SPBench's huge has 120 s; the others are ours."""
LEAST_SLOPE = 0.3
"""Minimum slope of a lane's side (rows over columns); flatter lines are ignored."""
SMALLEST_PX = 16


WithImage = tuple[Frame, Image]
"""A frame with the result of the previous operator."""
WithImages = tuple[Frame, Image, Image]
WithLines = tuple[Frame, Lines]


class Lanes(NamedTuple):
    """A frame with its lines drawn in, and the lines, in pixels of the frame."""

    number: int
    image: Image
    lines: Lines
    digest: str


class LaneOptions(Options):
    height: int = Field(default=360, ge=0, le=4320, description="Rows to which frames are scaled down; 0: never")
    search: Literal["both_sides", "spbench"] = Field(
        default="both_sides", description="Search until both sides have a line; or, as SPBench, until five lines"
    )


class _Lanes(App):
    """The common part of both divisions into stages."""

    options_model: ClassVar[type[Options]] = LaneOptions
    input_classes = INPUT_CLASSES
    options: LaneOptions

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        self._search = operators.SEARCHES[self.options.search]

    def setup(self) -> None:
        cv2.setNumThreads(1)

    def items(self, path: Path | None) -> Iterator[Frame]:
        return frames_of(path or sample_road(), self.options.height)

    def from_frame(self, frame: NDArray[np.uint8], number: int) -> Frame:
        return Frame(number, scaled(frame, self.options.height))

    def encode_result(self, value: Lanes) -> dict[str, Any]:
        sides = {side for side in map(side_of, value.lines.tolist()) if side}
        return {
            "frame": value.number,
            "lines": value.lines.tolist(),
            "left": "left" in sides,
            "right": "right" in sides,
            "sha256": value.digest,
        }

    def open_output(self, path: Path) -> Output | None:
        return video_output(path, COLUMNS, _shown)


class LaneDetection(_Lanes):
    name = "lane_detection"
    description = "Finds the sides of the lane in video frames; nine operators, most of them light."
    stages: tuple[Stage, ...] = tuple(
        Stage(name) for name in ("segment", "canny_1", "hough_t", "hough_p", "bitwise", "canny_2", "overlap")
    )

    def segment(self, frame: Frame) -> WithImage:
        return frame, _region(frame)

    def canny_1(self, value: WithImage) -> WithImage:
        frame, region = value
        return frame, operators.canny_1(region)

    def hough_t(self, value: WithImage) -> WithImages:
        frame, edges = value
        return frame, edges, operators.hough_t(edges, self._search)

    def hough_p(self, value: WithImages) -> WithImages:
        frame, edges, straight = value
        return frame, straight, operators.hough_p(edges, self._search)

    def bitwise(self, value: WithImages) -> WithImage:
        frame, straight, pieces = value
        return frame, operators.bitwise(straight, pieces)

    def canny_2(self, value: WithImage) -> WithLines:
        frame, both = value
        return frame, operators.canny_2(both, self._search)

    def overlap(self, value: WithLines) -> Lanes:
        return _overlap(*value)


class LaneDetection4(_Lanes):
    name = "lane_detection_4"
    description = "Finds the sides of the lane in video frames; the light operators joined."
    stages: tuple[Stage, ...] = (Stage("edges"), Stage("hough_t"), Stage("lines"))

    def edges(self, frame: Frame) -> WithImage:
        return frame, operators.canny_1(_region(frame))

    def hough_t(self, value: WithImage) -> WithImages:
        frame, edges = value
        return frame, edges, operators.hough_t(edges, self._search)

    def lines(self, value: WithImages) -> Lanes:
        frame, edges, straight = value
        both = operators.bitwise(straight, operators.hough_p(edges, self._search))
        return _overlap(frame, operators.canny_2(both, self._search))


def side_of(line: list[int]) -> str:
    """Return ``left``, ``right`` or nothing: rows count downwards, so a lane's left side rises to the right."""
    x1, y1, x2, y2 = line
    if x1 == x2 or abs(y2 - y1) < LEAST_SLOPE * abs(x2 - x1):
        return ""
    return "left" if (y2 - y1) / (x2 - x1) < 0 else "right"


def _region(frame: Frame) -> Image:
    """Check a frame. Raises: RecomposeError if the frame is not higher than a third of its width."""
    image = intact(frame)
    rows, columns = image.shape[:2]
    if columns < SMALLEST_PX or rows - operators.top_row(image) < SMALLEST_PX:
        must = "its height must be more than a third of its width"
        raise RecomposeError(f"frame {frame.number} is {columns}×{rows}; {must}")
    return operators.segment(image)


def _overlap(frame: Frame, lines: Lines) -> Lanes:
    image, placed = operators.overlap(frame.image, lines)
    return Lanes(frame.number, image, placed, hashlib.sha256(image.tobytes()).hexdigest())


def _shown(value: Lanes) -> Shown:
    return Shown(value.image, [[value.number, *line, side_of(line)] for line in value.lines.tolist()])
