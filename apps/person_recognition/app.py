"""Person recognition: denoise a frame, detect and mark faces, recognize whose they are (Vogel et al., section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from apps.contract import App, Options, Output
from apps.faces.detect import Detector, crop, equalised
from apps.faces.gallery import THRESHOLD, Recognizer, cached_gallery, load
from apps.faces.results import COLUMNS, RED, Marked, Recognized, circle, encoded, recognized, shown
from apps.faces.samples import sample_clip, sample_training
from apps.frames import Frame, frames_of, intact, scaled
from apps.video_out import video_output
from compositions.model import Stage

STRENGTH = 3
WINDOWS = {"slow": (7, 21), "fast": (5, 11)}
"""Of denoising: the patch that is compared, and where it is searched, pixels."""
RADIUS = 0.5


class PersonRecognitionOptions(Options):
    training: Path | None = Field(default=None, description="Folder of pictures of faces; default: the sample's")
    height: int = Field(default=260, ge=0, le=4320, description="Frames are scaled down to so many rows; 0: never")
    denoise: Literal["slow", "fast"] = Field(default="slow", description="Windows of 7 and 21 pixels, or 5 and 11")
    scale: float = Field(default=1.1, gt=1.0, le=2.0, description="Factor between two sizes of faces searched")
    neighbours: int = Field(default=5, ge=0, le=100, description="Hits that make a face")
    smallest: float = Field(default=0.06, gt=0, le=1, description="Side of a face over the height of the frame")
    largest: float = Field(default=0.6, gt=0, le=1)
    threshold: float = Field(default=THRESHOLD, gt=0, description="Distance beyond which a face is a stranger's")


class PersonRecognition(App):
    name = "person_recognition"
    description = "Denoises video frames, marks faces and says whose they are."
    stages: tuple[Stage, ...] = (Stage("denoise"), Stage("detect"), Stage("recognize"))
    options_model: ClassVar[type[Options]] = PersonRecognitionOptions
    options: PersonRecognitionOptions

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

    def denoise(self, frame: Frame) -> Frame:
        patch, search = WINDOWS[self.options.denoise]
        clean = cv2.fastNlMeansDenoisingColored(intact(frame), None, STRENGTH, STRENGTH, patch, search)
        return Frame(frame.number, np.asarray(clean, dtype=np.uint8))

    def detect(self, frame: Frame) -> Marked:
        grey = equalised(frame.image)
        boxes = self._detector.boxes(grey)
        faces = tuple(crop(grey, box) for box in boxes)
        image = frame.image.copy()
        for box in boxes:
            circle(image, box, RED, RADIUS)
        return Marked(frame.number, image, boxes, faces)

    def recognize(self, marked: Marked) -> Recognized:
        persons = tuple(self._recognizer.person(face) for face in marked.faces)
        return recognized(marked.number, marked.image.copy(), marked.boxes, persons)

    def encode_result(self, value: Recognized) -> dict[str, Any]:
        return encoded(value)

    def open_output(self, path: Path) -> Output | None:
        return video_output(path, COLUMNS, shown)

    def _training(self) -> Path:
        return self.options.training.expanduser() if self.options.training else sample_training()
