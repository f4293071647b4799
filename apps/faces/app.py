"""The base class of the face apps: their options, sources and outputs, and the model of each worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from apps.contract import App, Options, Output
from apps.data_sets.reader import Reader, Searched, Unversioned
from apps.faces.detect import Detector
from apps.faces.results import COLUMNS, KIND, THRESHOLD, Recognized, Recognizer, encoded, load, shown
from apps.faces.samples import sample_clip, sample_training
from apps.frames import Frame, frames_of, scaled
from apps.video_out import video_output

if TYPE_CHECKING:
    from apps.faces.data_set import FaceRecipe


INPUT_CLASSES = {"test": 9, "small": 30, "medium": 90, "large": 450, "huge": 900}
"""Frames: at 30 a second 0.3, 1, 3, 15 and 30 s, as SPBench's Face Recognizer has them."""


class FaceOptions(Options):
    training: Path | None = Field(default=None, description="Folder of pictures of faces; default: the sample's")
    gallery: Path | None = Field(
        default=None, description="A data set that recompose ingest made, followed while running; in place of training"
    )
    height: int = Field(
        default=260, ge=0, le=4320, description="Frames are scaled down to so many rows (small faces: 480); 0: never"
    )
    scale: float = Field(default=1.1, gt=1.0, le=2.0, description="Factor between two sizes of faces searched")
    neighbours: int = Field(default=5, ge=0, le=100, description="Hits that make a face")
    smallest: float = Field(default=0.06, gt=0, le=1, description="Side of a face over the height of the frame")
    largest: float = Field(default=0.6, gt=0, le=1)
    threshold: float = Field(default=THRESHOLD, gt=0, description="Distance beyond which a face is a stranger's")


class FaceApp(App):
    """Its last stage gives ``Recognized``."""

    input_classes = INPUT_CLASSES
    options: FaceOptions

    _recognizers: Reader[Recognizer] | Unversioned[Recognizer]

    def prepare(self) -> None:
        """Brings the gallery up to date with its pictures."""
        self._searched().prepare()

    def setup(self) -> None:
        options = self.options
        self._detector = Detector(options.scale, options.neighbours, options.smallest, options.largest)
        self._recognizers = self._searched().open()

    def data_set(self) -> FaceRecipe:
        from apps.faces.data_set import FaceRecipe  # Arrow: workers do not need it

        return FaceRecipe(self._training)

    @property
    def _recognizer(self) -> Recognizer:
        """Return the recognizer of the gallery's newest version."""
        return self._recognizers.newest()[1]

    def _searched(self) -> Searched[Recognizer]:
        return Searched(KIND, self.options.gallery, self._training, self.data_set, self._load)

    def _load(self, index: Path) -> Recognizer:
        return Recognizer(load(index), self.options.threshold)

    def items(self, path: Path | None) -> Iterator[Frame]:
        return frames_of(path or sample_clip(), self.options.height)

    def from_frame(self, frame: NDArray[np.uint8], number: int) -> Frame:
        return Frame(number, scaled(frame, self.options.height))

    def encode_result(self, value: Recognized) -> dict[str, Any]:
        return encoded(value)

    def open_output(self, path: Path) -> Output | None:
        return video_output(path, COLUMNS, shown)

    def _training(self) -> Path:
        return self.options.training.expanduser() if self.options.training else sample_training()
