"""Samples for a machine without the user's own: a clip with a face, and the face to recognize it by, made once from
photos that ship inside the scikit-image wheel (extra ``samples``)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from apps.samples import cache_dir, wheel_photo
from apps.video_out import write_video

Image = NDArray[np.uint8]

WIDTH, HEIGHT = 462, 260
FRAMES_PER_S = 10.0
SCENES = (("astronaut.png", 90), ("coffee.png", 30), ("astronaut.png", 90), ("chelsea.png", 30), ("astronaut.png", 60))
"""Photos and frames each is looked at for: 30 s in all, four fifths of them with a face."""
RECIPE = "v1"
SEED = 20


def sample_clip() -> Path:
    """An MJPG video of 300 frames, 462×260. Raises: RecomposeError when scikit-image is not installed."""
    place = cache_dir() / f"clip-{RECIPE}.avi"
    if not place.exists():
        write_video(place, _frames(), (WIDTH, HEIGHT), FRAMES_PER_S)
    return place


def sample_training() -> Path:
    """A folder with one picture of the person in the clip."""
    folder = cache_dir() / f"faces-{RECIPE}"
    if not (folder / "astronaut.png").exists():
        folder.mkdir(exist_ok=True)
        draft = folder / "astronaut.part"
        draft.write_bytes(wheel_photo("astronaut.png").read_bytes())
        draft.replace(folder / "astronaut.png")
    return folder


def _frames() -> Iterator[Image]:
    """A window that moves over one photo after the other, and zooms."""
    chance = random.Random(SEED)
    for name, count in SCENES:
        photo = np.asarray(cv2.imread(str(wheel_photo(name))), dtype=np.uint8)
        begin, end = _window(photo, chance), _window(photo, chance)
        for number in range(count):
            yield _cut(photo, begin + (end - begin) * number / count)


def _window(photo: Image, chance: random.Random) -> NDArray[np.float64]:
    """Left, top and width of a window in the upper half of a photo, where portraits have their faces."""
    height, width = photo.shape[:2]
    span = min(width * chance.uniform(0.7, 0.95), height * WIDTH / HEIGHT)
    return np.array([chance.uniform(0, width - span), chance.uniform(0, 0.1) * height, span])


def _cut(photo: Image, window: NDArray[np.float64]) -> Image:
    left, top, span = window
    rows, columns = round(span * HEIGHT / WIDTH), round(span)
    part = photo[round(top) : round(top) + rows, round(left) : round(left) + columns]
    return np.asarray(cv2.resize(part, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA), dtype=np.uint8)
