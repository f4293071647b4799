"""Results as a video that any player shows (MJPG in AVI) and as a table (CSV) beside it."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from compositions.errors import RecomposeError

FRAMES_PER_S = 30.0
MJPG = cv2.VideoWriter.fourcc(*"MJPG")
"""OpenCV's wheel writes no H.264."""


def write_video(place: Path, frames: Iterable[NDArray[np.uint8]], size: tuple[int, int], frames_per_s: float) -> None:
    """MJPG in AVI, ``size`` width and height; appears under its name when it is complete."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        draft = Path(folder) / place.name
        writer = cv2.VideoWriter(str(draft), MJPG, frames_per_s, size, True)
        for frame in frames:
            writer.write(frame)
        writer.release()
        draft.replace(place)


class Shown(NamedTuple):
    """What a result shows: its picture, and its rows of the table."""

    image: NDArray[np.uint8]
    rows: Iterable[Sequence[Any]]


class VideoOutput:
    """``x.avi`` with ``x.csv`` beside it; ``x.csv`` alone without pictures.

    Raises: RecomposeError when a file cannot be written.
    """

    def __init__(self, path: Path, columns: Sequence[str], show: Callable[[Any], Shown]) -> None:
        self._path, self._show = path, show
        self._video: cv2.VideoWriter | None = None
        self._size = (0, 0)
        try:
            self._table = path.with_suffix(".csv").open("w", newline="", encoding="utf-8")
            if path.suffix == ".avi":
                path.open("wb").close()
        except OSError as error:
            raise RecomposeError(
                f"cannot write {str(path)!r}: {error.strerror}; give a file in a folder that exists"
            ) from error
        self._rows = csv.writer(self._table, lineterminator="\n")
        self._rows.writerow(columns)

    def write(self, serial: int, value: Any) -> None:
        image, rows = self._show(value)
        if self._path.suffix == ".avi":
            self._write_image(image)
        self._rows.writerows(rows)

    def _write_image(self, image: NDArray[np.uint8]) -> None:
        height, width = image.shape[:2]
        if self._video is None:
            self._size = (width, height)
            self._video = cv2.VideoWriter(str(self._path), MJPG, FRAMES_PER_S, self._size, True)
            if not self._video.isOpened():
                raise RecomposeError(f"cannot write {str(self._path)!r} as MJPG video")
        if (width, height) != self._size:
            known = f"{self._size[0]}×{self._size[1]}"
            raise RecomposeError(f"a frame of {width}×{height} does not fit the video of {known} that was begun")
        self._video.write(image)

    def close(self) -> None:
        self._table.close()
        if self._video is not None:
            self._video.release()


def video_output(path: Path, columns: Sequence[str], show: Callable[[Any], Shown]) -> VideoOutput | None:
    """By the name's ending: None for anything but ``.avi`` and ``.csv``."""
    return VideoOutput(path, columns, show) if path.suffix in (".avi", ".csv") else None
