"""The operators of SPBench's Lane Detection between its source and its sink, on plain arrays.

The region of interest lies below row width/3, and excludes the last column.
"""

from dataclasses import dataclass
from math import cos, pi, sin

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
Lines = NDArray[np.int32]
"""n × 4: from (x, y) to (x, y), pixels."""

MOST_VOTES, VOTES_STEP, ENOUGH_LINES = 225, 5, 5
LEFT_RAD, RIGHT_RAD = (0.09, 1.48), (1.66, 3.14)
"""Angles of the normals of lines that lean like the sides of a lane."""
STEEP_LEFT_RAD, STEEP_RIGHT_RAD = (0.3, 1.3), (1.85, 2.85)
"""The same angles without nearly level or upright lines: the sides of a lane as seen from within the lane."""
REACH_PX = 1000
LARGEST_GAP_PX, LEAST_VOTES = 10, 4
INVERSE_FROM = 150
BLUE = (255, 0, 0)


@dataclass(frozen=True)
class Search:
    """The limits of a detection. SPBench stops at five lines, which on a motorway may all belong to the solid side; and
    the dashes of the other side are shorter than its segments."""

    both_sides: bool
    shortest_px: int


SEARCHES = {"both_sides": Search(True, 25), "spbench": Search(False, 60)}


def top_row(frame: Image) -> int:
    """Return the first row of the region of interest."""
    return frame.shape[1] // 3


def segment(frame: Image) -> Image:
    return np.ascontiguousarray(frame[top_row(frame) :, :-1])


def canny_1(region: Image) -> Image:
    return np.asarray(cv2.Canny(region, 50, 250), dtype=np.uint8)


def hough_t(edges: Image, search: Search) -> Image:
    """Return a mask with the straight lines of most votes; the threshold is lowered until there are enough lines."""
    votes, found = MOST_VOTES, np.empty((0, 2), np.float32)
    while votes > 0 and not _enough(found, search):
        lines = cv2.HoughLines(edges, 1, pi / 180, votes)
        found = np.empty((0, 2), np.float32) if lines is None else lines.reshape(-1, lines.shape[-1])[:, :2]
        votes -= VOTES_STEP
    mask = np.zeros_like(edges)
    for rho, theta in found:
        if LEFT_RAD[0] < theta < LEFT_RAD[1] or RIGHT_RAD[0] < theta < RIGHT_RAD[1]:
            _draw_polar(mask, float(rho), float(theta))
    return mask


def _enough(found: NDArray[np.float32], search: Search) -> bool:
    if len(found) < ENOUGH_LINES:
        return False
    angles = found[:, 1]
    sides = [((angles > low) & (angles < high)).any() for low, high in (STEEP_LEFT_RAD, STEEP_RIGHT_RAD)]
    return not search.both_sides or all(sides)


def _draw_polar(mask: Image, rho: float, theta: float) -> None:
    x, y = rho * cos(theta), rho * sin(theta)
    along = (-sin(theta) * REACH_PX, cos(theta) * REACH_PX)
    begin, end = (round(x + along[0]), round(y + along[1])), (round(x - along[0]), round(y - along[1]))
    cv2.line(mask, begin, end, 255, 8)


def hough_p(edges: Image, search: Search) -> Image:
    """Return a mask with the line segments of the edges."""
    return drawn(np.zeros_like(edges), segments(edges, search), 255)


def segments(edges: Image, search: Search) -> Lines:
    """Return segments by the probabilistic Hough transform (Matas et al. 2000)."""
    found = cv2.HoughLinesP(edges, 1, pi / 180, LEAST_VOTES, None, search.shortest_px, LARGEST_GAP_PX)
    return np.empty((0, 4), np.int32) if found is None else np.asarray(found.reshape(-1, 4), dtype=np.int32)


def bitwise(straight: Image, pieces: Image) -> Image:
    """Return the intersection of both masks, dark on white."""
    both = cv2.bitwise_and(straight, pieces)
    return np.asarray(cv2.threshold(both, INVERSE_FROM, 255, cv2.THRESH_BINARY_INV)[1], dtype=np.uint8)


def canny_2(both: Image, search: Search) -> Lines:
    return segments(np.asarray(cv2.Canny(both, 100, 350), dtype=np.uint8), search)


def overlap(frame: Image, lines: Lines) -> tuple[Image, Lines]:
    """Return a copy of the frame with the lines drawn in, and the lines in coordinates of the frame."""
    placed = lines + np.array([0, top_row(frame), 0, top_row(frame)], np.int32)
    return drawn(frame.copy(), placed, BLUE), placed


def drawn(image: Image, lines: Lines, colour: int | tuple[int, int, int]) -> Image:
    for x1, y1, x2, y2 in lines.tolist():
        cv2.line(image, (x1, y1), (x2, y2), colour, 6)
    return image
