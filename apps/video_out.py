"""Results as a video that any player shows (MJPG in AVI) and as a table (CSV) beside it."""

import csv
import io
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from apps.output_file import OutputFailed, OutputFile
from compositions.errors import RecomposeError

FRAMES_PER_S = 30.0
MJPG = cv2.VideoWriter.fourcc(*"MJPG")
"""The codec; OpenCV's wheel cannot write H.264."""
LOOKED_AT_EVERY = 300
"""Number of frames after which a video's file must have grown; OpenCV buffers far fewer."""


def write_video(place: Path, frames: Iterable[NDArray[np.uint8]], size: tuple[int, int], frames_per_s: float) -> None:
    """Write a video (MJPG in AVI) of width and height ``size``, renamed into place when it is complete."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        draft = Path(folder) / place.name
        writer = cv2.VideoWriter(str(draft), MJPG, frames_per_s, size, True)
        for frame in frames:
            writer.write(frame)
        writer.release()
        draft.replace(place)


class Shown(NamedTuple):
    """The picture of a result, and its rows of the table."""

    image: NDArray[np.uint8]
    rows: Iterable[Sequence[Any]]


class VideoOutput:
    """Writes ``x.avi`` with ``x.csv`` beside it, or only ``x.csv`` without pictures. Raises: RecomposeError if a file
    cannot be written, OutputFailed if no more can be written."""

    def __init__(self, path: Path, columns: Sequence[str], show: Callable[[Any], Shown]) -> None:
        self._show = show
        self._table = OutputFile(path.with_suffix(".csv"))
        self._video = Video(path) if path.suffix == ".avi" else None
        self._add_rows([columns])

    def write(self, serial: int, value: Any) -> None:
        image, rows = self._show(value)
        if self._video is not None:
            self._video.add(image)
        self._add_rows(rows)

    def _add_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._table.add(text.getvalue().encode())

    def close(self) -> None:
        with ExitStack() as closing:
            closing.callback(self._table.close)
            if self._video is not None:
                closing.callback(self._video.close)


class Video:
    """MJPG in AVI at ``path``. OpenCV's writer does not report a full disk, so the file size is checked. Raises:
    RecomposeError for a place that cannot be written and a frame of another size; OutputFailed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        OutputFile(path).close()
        self._writer: cv2.VideoWriter | None = None
        self._size = (0, 0)
        self._count = self._seen_bytes = 0

    def add(self, image: NDArray[np.uint8]) -> None:
        height, width = image.shape[:2]
        if self._writer is None:
            self._size = (width, height)
            self._writer = cv2.VideoWriter(str(self._path), MJPG, FRAMES_PER_S, self._size, True)
            if not self._writer.isOpened():
                raise OutputFailed(f"cannot write {str(self._path)!r} as MJPG video")
        if (width, height) != self._size:
            known = f"{self._size[0]}×{self._size[1]}"
            raise RecomposeError(f"a frame has {width}×{height} pixels; must be {known}, like the first frame")
        self._writer.write(image)
        self._count += 1
        if self._count % LOOKED_AT_EVERY == 0:
            self._expect_growth()

    def _expect_growth(self) -> None:
        size = self._path.stat().st_size
        if size == self._seen_bytes:
            self._writer, writer = None, self._writer
            assert writer is not None, "frames were written"
            writer.release()
            raise self._broken()
        self._seen_bytes = size

    def _broken(self) -> OutputFailed:
        there = f"{frames_in(self._path):,} of {self._count:,} frames are there"
        return OutputFailed(f"{str(self._path)!r} cannot be written any further: the disk may be full; {there}")

    def close(self) -> None:
        if self._writer is None:
            return
        self._writer.release()
        if frames_in(self._path) != self._count:
            raise self._broken()


def frames_in(path: Path) -> int:
    """Return the number of frames in a video's index; 0 if it has none or is no video."""
    video = cv2.VideoCapture(str(path))
    count = int(video.get(cv2.CAP_PROP_FRAME_COUNT)) if video.isOpened() else 0
    video.release()
    return max(count, 0)


def video_output(path: Path, columns: Sequence[str], show: Callable[[Any], Shown]) -> VideoOutput | None:
    """Return the output by the name's ending: None for anything but ``.avi`` and ``.csv``."""
    return VideoOutput(path, columns, show) if path.suffix in (".avi", ".csv") else None
