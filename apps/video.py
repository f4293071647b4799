"""Source ``video``: frames of a file, a camera or a network stream, through OpenCV."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compositions.errors import RecomposeError
from compositions.wording import without_user

Image = NDArray[np.uint8]

TIMEOUT_MS = 10_000
"""Time limit for a network stream to open, and for its next frame."""
SPARE_FRAMES = 0.02
"""Accepted shortfall of a video's frames: the announced count is often an estimate from the duration."""


Capture = Any
"""A ``cv2.VideoCapture``, or an object with its methods."""


def open_capture(place: str) -> Capture:
    """Open a camera by its number, a URL, or a file."""
    import cv2  # OpenCV takes a fifth of a second; commands and workers without video import this module too

    if place.isdigit():
        return cv2.VideoCapture(int(place))
    if "://" in place:
        limits = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, TIMEOUT_MS, cv2.CAP_PROP_READ_TIMEOUT_MSEC, TIMEOUT_MS]
        return cv2.VideoCapture(place, cv2.CAP_FFMPEG, limits)
    return cv2.VideoCapture(place)


class Frames:
    """The frames of one place, read once. The first frame is read at once, so that a place without video is refused.

    Raises: RecomposeError if there is nothing to read; while iterating, if a camera or stream goes away, or a file ends
    well before the frame that it announces as its last.
    """

    def __init__(self, place: str, capture: Callable[[str], Capture] = open_capture) -> None:
        self.live = place.isdigit() or "://" in place
        self._shown = without_user(place) if "://" in place else place
        if not self.live and not Path(place).is_file():
            raise RecomposeError(f"video {place!r} does not exist; give a file, the number of a camera, or a URL")
        self._capture = capture(place)
        opened, first = self._capture.read() if self._capture.isOpened() else (False, None)
        if not opened or first is None:
            self._capture.release()
            why = "it is damaged, or has a format that OpenCV cannot read"
            raise RecomposeError(f"video {self._shown!r} has no readable frames; {why}")
        self.first: Image = first

    def __iter__(self) -> Iterator[Image]:
        frame, count = self.first, 0
        try:
            while True:
                count += 1
                yield frame
                more, read = self._capture.read()
                if not more or read is None:
                    break
                frame = read
            self._check_end(count)
        finally:
            self._capture.release()

    def _check_end(self, count: int) -> None:
        if self.live:
            raise RecomposeError(f"video {self._shown!r} sent no more frames after {count}; check if it still exists")
        import cv2

        announced = int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT))
        if count < announced - max(2, SPARE_FRAMES * announced):
            ended = f"video {self._shown!r} ended after frame {count} of {announced}"
            raise RecomposeError(f"{ended}; it is truncated or damaged")
