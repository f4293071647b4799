"""Face Recognizer (SPBench): detect all faces of a frame, mark the wanted person's green and the others red."""

from typing import ClassVar

from pydantic import Field

from apps.contract import Options
from apps.faces.app import FaceApp, FaceOptions
from apps.faces.results import GREEN, RED, Marked, Recognized, circle, crop, equalised, recognized
from apps.frames import Frame, intact
from compositions.model import Stage

RADIUS = 0.75


class FaceRecognizerOptions(FaceOptions):
    """The detector as SPBench has it: slow, and blind to faces larger than 18 % of the frame."""

    scale: float = Field(default=1.01, gt=1.0, le=2.0, description="Factor between two searched sizes of faces")
    neighbours: int = Field(default=40, ge=0, le=100, description="Hits required for a face")
    largest: float = Field(default=0.18, gt=0, le=1)


class FaceRecognizer(FaceApp):
    name = "face_recognizer"
    description = "Marks one person's face in video frames green, all others red."
    stages: tuple[Stage, ...] = (Stage("detect"), Stage("recognize"))
    options_model: ClassVar[type[Options]] = FaceRecognizerOptions
    options: FaceRecognizerOptions

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
