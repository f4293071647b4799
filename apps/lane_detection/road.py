"""A synthetic video of a road, for a machine without videos of its own: drawn once, from a seed."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from apps.samples import cache_dir
from apps.video_out import write_video

Image = NDArray[np.uint8]

WIDTH, HEIGHT = 640, 360
FRAMES, FRAMES_PER_S = 150, 25.0
HORIZON = 200
"""Row where the road ends."""
RECIPE = "v1"
SEED = 7


def sample_road() -> Path:
    """An MJPG video of 150 frames, 640×360: a road that bends, with two marked sides, noise and a sky."""
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
    """The middle of the road, that comes closer."""
    for dash in range(6):
        near = (dash + number / 10 % 1) / 6
        begin, end = HORIZON + (HEIGHT - HORIZON) * near**2, HORIZON + (HEIGHT - HORIZON) * min(1.0, near + 0.06) ** 2
        cv2.line(image, (round(vanishing), round(begin)), (round(vanishing), round(end)), (230, 230, 230), 4)
