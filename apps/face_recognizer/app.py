"""Face Recognizer (SPBench): detect all faces of a frame, mark the wanted person's green and the others red."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from apps.contract import App, Options, Output
from apps.faces.detect import Detector, crop, equalised
from apps.faces.gallery import THRESHOLD, Recognizer, cached_gallery, load
from apps.faces.results import COLUMNS, GREEN, RED, Marked, Recognized, circle, encoded, recognized, shown
from apps.faces.samples import sample_clip, sample_training
from apps.frames import Frame, frames_of, intact, scaled
from apps.video_out import video_output
from compositions.model import Stage

RADIUS = 0.75


class FaceRecognizerOptions(Options):
    training: Path | None = Field(default=None, description="Folder of pictures of one person; default: the sample's")
    height: int = Field(default=260, ge=0, le=4320, description="Frames are scaled down to so many rows; 0: never")
    scale: float = Field(default=1.01, gt=1.0, le=2.0, description="Factor between two sizes of faces searched")
    neighbours: int = Field(default=40, ge=0, le=100, description="Hits that make a face")
    smallest: float = Field(default=0.06, gt=0, le=1, description="Side of a face over the height of the frame")
    largest: float = Field(default=0.18, gt=0, le=1)
    threshold: float = Field(default=THRESHOLD, gt=0, description="Distance beyond which a face is a stranger's")


class FaceRecognizer(App):
    """As SPBench has it, its detector's parameters are kept: slow, and blind to faces larger than 18 % of the frame."""

    name = "face_recognizer"
    description = "Marks one person's face in video frames green, all others red."
    stages: tuple[Stage, ...] = (Stage("detect"), Stage("recognize"))
    options_model: ClassVar[type[Options]] = FaceRecognizerOptions
    options: FaceRecognizerOptions

    def prepare(self) -> None:
        cached_gallery(self._training())

    def setup(self) -> None:
        options = self.options
        self._detector = Detector(options.scale, options.neighbours, options.smallest, options.largest)
        self._recognizer = Recognizer(load(cached_gallery(self._training())), options.threshold)

    def items(self, path: Path | None) -> Iterator[Frame]:
        return frames_of(path or sample_clip(), self.options.height)

    def from_frame(self, frame: NDArray[np.uint8], number: int) -> Frame:
        return Frame(number, scaled(frame, self.options.height))

    def detect(self, frame: Frame) -> Marked:
        image = intact(frame)
        grey = equalised(image)
        boxes = self._detector.boxes(grey)
        return Marked(frame.number, image, boxes, tuple(crop(grey, box) for box in boxes))

    def recognize(self, marked: Marked) -> Recognized:
        persons = tuple(self._recognizer.person(face) for face in marked.faces)
        image = marked.image.copy()
        for box, person in zip(marked.boxes, persons, strict=True):
            circle(image, box, GREEN if person.label is not None else RED, RADIUS)
        return recognized(marked.number, image, marked.boxes, persons)

    def encode_result(self, value: Recognized) -> dict[str, Any]:
        return encoded(value)

    def open_output(self, path: Path) -> Output | None:
        return video_output(path, COLUMNS, shown)

    def _training(self) -> Path:
        return self.options.training.expanduser() if self.options.training else sample_training()
