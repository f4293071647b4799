"""Frames on their way through the face apps, marks in them, and what both apps say of them."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from apps.faces.detect import Box
from apps.faces.gallery import Person
from apps.video_out import Shown

Image = NDArray[np.uint8]
COLUMNS = ("frame", "x", "y", "w", "h", "label", "distance")
FONT = cv2.FONT_HERSHEY_PLAIN
RED, GREEN = (0, 0, 255), (0, 255, 0)
"""Blue, green, red, as OpenCV has them."""


class Marked(NamedTuple):
    """A frame in which faces are marked, and these faces, equalised and grey, before they were."""

    number: int
    image: Image
    boxes: tuple[Box, ...]
    faces: tuple[Image, ...]


class Recognized(NamedTuple):
    """``digest`` of the marked frame before any text was written in it, which differs between versions of OpenCV."""

    number: int
    image: Image
    boxes: tuple[Box, ...]
    persons: tuple[Person, ...]
    digest: str


def circle(image: Image, box: Box, colour: tuple[int, int, int], radius: float) -> None:
    """Draws into ``image``; ``radius`` over the width of the face."""
    centre = (box.x + box.width // 2, box.y + box.height // 2)
    cv2.circle(image, centre, round(radius * box.width), colour, 2)


def recognized(number: int, image: Image, boxes: tuple[Box, ...], persons: tuple[Person, ...]) -> Recognized:
    """Takes the digest, then writes names beside the faces."""
    digest = hashlib.sha256(image.tobytes()).hexdigest()
    for box, person in zip(boxes, persons, strict=True):
        if person.label is not None:
            cv2.putText(image, person.label, (box.x, max(12, box.y - 4)), FONT, 1.0, GREEN, 1, cv2.LINE_AA)
    return Recognized(number, image, boxes, persons, digest)


def rows_of(value: Recognized) -> list[list[Any]]:
    return [[value.number, *box, *_named(person)] for box, person in zip(value.boxes, value.persons, strict=True)]


def _named(person: Person) -> tuple[str | None, float | None]:
    """A stranger has neither: null in JSON, an empty cell in CSV."""
    return person.label, None if person.distance is None else round(person.distance, 3)


def encoded(value: Recognized) -> dict[str, Any]:
    faces = [dict(zip(COLUMNS[1:], row[1:], strict=True)) for row in rows_of(value)]
    return {"frame": value.number, "faces": faces, "sha256": value.digest}


def shown(value: Recognized) -> Shown:
    return Shown(value.image, rows_of(value))
