"""Person recognition: denoise a frame, detect and mark faces, recognize whose they are (Vogel et al., section 4)."""

from typing import ClassVar, Literal

import cv2
import numpy as np
from pydantic import Field

from apps.contract import Options
from apps.faces.app import FaceApp, FaceOptions
from apps.faces.results import RED, Marked, Recognized, circle, crop, equalised, recognized
from apps.frames import Frame, intact
from compositions.model import Stage

STRENGTH = 3
WINDOWS = {"slow": (7, 21), "fast": (5, 11)}
"""Sizes for denoising, in pixels: of the compared patch, and of the search window."""
RADIUS = 0.5


class PersonRecognitionOptions(FaceOptions):
    denoise: Literal["slow", "fast"] = Field(default="slow", description="Windows of 7 and 21 pixels, or 5 and 11")


class PersonRecognition(FaceApp):
    name = "person_recognition"
    description = "Denoises video frames, marks faces and says whose they are."
    stages: tuple[Stage, ...] = (Stage("denoise"), Stage("detect"), Stage("recognize"))
    options_model: ClassVar[type[Options]] = PersonRecognitionOptions
    options: PersonRecognitionOptions

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
