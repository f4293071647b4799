"""Faces in a frame: OpenCV's Haar cascade (Viola and Jones 2001), as SPBench and Vogel et al. use it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]
CASCADE = Path(cv2.__file__).parent / "data" / "haarcascade_frontalface_default.xml"


class Box(NamedTuple):
    """The box of a face, in pixels: left, top, width, height."""

    x: int
    y: int
    width: int
    height: int


class Detector:
    """One loaded cascade, to be made once a worker.

    ``scale``: factor between two sizes searched; ``neighbours``: hits that make a face; ``smallest`` and ``largest``:
    sides of a face over the height of the frame.
    """

    def __init__(self, scale: float, neighbours: int, smallest: float, largest: float) -> None:
        cv2.setNumThreads(1)
        self._cascade = cv2.CascadeClassifier(str(CASCADE))
        self._scale, self._neighbours = scale, neighbours
        self._smallest, self._largest = smallest, largest

    def boxes(self, grey: Image) -> tuple[Box, ...]:
        """Faces in an equalised grey frame, from left to right."""
        height = grey.shape[0]
        sides = [max(1, round(share * height)) for share in (self._smallest, self._largest)]
        found = self._cascade.detectMultiScale(
            grey,
            scaleFactor=self._scale,
            minNeighbors=self._neighbours,
            minSize=(sides[0], sides[0]),
            maxSize=(sides[1], sides[1]),
        )
        return tuple(sorted(Box(*map(int, box)) for box in found))


def equalised(frame: Image) -> Image:
    """Grey, with its histogram spread out."""
    return np.asarray(cv2.equalizeHist(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)), dtype=np.uint8)


def crop(grey: Image, box: Box) -> Image:
    """A copy, so that no more than the face travels."""
    return grey[box.y : box.y + box.height, box.x : box.x + box.width].copy()
