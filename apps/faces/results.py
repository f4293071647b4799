"""Find faces, and the values of the face apps: frames between stages, the marks drawn in them, and results."""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import cv2
import numpy as np
from numpy.typing import NDArray

from apps.data_sets.npz import whole, write_npz
from apps.video_out import Shown
from compositions.errors import RecomposeError

Image = NDArray[np.uint8]
CASCADE = Path(cv2.__file__).parent / "data" / "haarcascade_frontalface_default.xml"


class Box(NamedTuple):
    """The box of a face, in pixels: left, top, width, height."""

    x: int
    y: int
    width: int
    height: int


class Detector:
    """One loaded cascade, to be created once per worker. ``scale``: factor between two searched sizes; ``neighbours``:
    hits required for a face; ``smallest`` and ``largest``: sides of a face over the height of the frame."""

    def __init__(self, scale: float, neighbours: int, smallest: float, largest: float) -> None:
        cv2.setNumThreads(1)
        self._cascade = cv2.CascadeClassifier(str(CASCADE))
        self._scale, self._neighbours = scale, neighbours
        self._smallest, self._largest = smallest, largest

    def boxes(self, grey: Image) -> tuple[Box, ...]:
        """Return the faces in an equalised grey frame, from left to right."""
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
    """Return the frame in grey, with its histogram spread out."""
    return np.asarray(cv2.equalizeHist(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)), dtype=np.uint8)


def crop(grey: Image, box: Box) -> Image:
    """Return a copy, so that only the face is sent on."""
    return grey[box.y : box.y + box.height, box.x : box.x + box.width].copy()


# Recognize faces by the local binary pattern histograms (Ahonen et al. 2004) of a training set.

FORMAT = 1
"""The version of the file."""
KIND = "faces"
"""The kind of a data set that has such a file."""
RADIUS, NEIGHBOURS, GRID = 3, 8, 8
THRESHOLD = 180.0
"""Maximum distance of a face to a person of the training set; a face farther from all is unknown."""


class Person(NamedTuple):
    """The person that a face was recognized as, and the distance; None: unknown."""

    label: str | None
    distance: float | None


class Gallery(NamedTuple):
    """Grey faces, and the names of their persons."""

    faces: tuple[Image, ...]
    labels: tuple[str, ...]


class Recognizer:
    """A trained model, made once per worker, which takes about a millisecond per training face."""

    def __init__(self, gallery: Gallery, threshold: float = THRESHOLD) -> None:
        self._names = sorted(set(gallery.labels))
        self._model = cv2.face.LBPHFaceRecognizer.create(RADIUS, NEIGHBOURS, GRID, GRID, threshold)
        numbers = np.array([self._names.index(label) for label in gallery.labels], dtype=np.int32)
        self._model.train(list(gallery.faces), numbers)

    def person(self, face: Image) -> Person:
        number, distance = self._model.predict(face)
        return Person(self._names[number], float(distance)) if number >= 0 else Person(None, None)


def save(faces: Iterable[Image], labels: Sequence[str], place: Path) -> None:
    """Write a gallery; ``faces`` are never in memory together."""
    arrays = (whole(f"face{number}", face) for number, face in enumerate(faces))
    write_npz(place, chain([whole("labels", labels)], arrays))


def load(place: Path) -> Gallery:
    """Read a gallery. Raises: RecomposeError if the file is missing or damaged."""
    try:
        with np.load(place, allow_pickle=False) as stored:
            labels = tuple(str(label) for label in stored["labels"])
            return Gallery(tuple(stored[f"face{number}"] for number in range(len(labels))), labels)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise RecomposeError(f"{str(place)!r} is not a gallery of faces ({error}); run recompose ingest") from error


COLUMNS = ("frame", "x", "y", "w", "h", "label", "distance")
FONT = cv2.FONT_HERSHEY_PLAIN
RED, GREEN = (0, 0, 255), (0, 255, 0)
"""Colours as blue, green, red, the order of OpenCV."""


class Marked(NamedTuple):
    """A frame with marked faces, and the unmarked faces in equalised grey."""

    number: int
    image: Image
    boxes: tuple[Box, ...]
    faces: tuple[Image, ...]


class Recognized(NamedTuple):
    """``digest``: of the marked frame before text is written into it, as text differs between versions of OpenCV."""

    number: int
    image: Image
    boxes: tuple[Box, ...]
    persons: tuple[Person, ...]
    digest: str


def circle(image: Image, box: Box, colour: tuple[int, int, int], radius: float) -> None:
    """Draw into ``image``; ``radius`` relative to the width of the face."""
    centre = (box.x + box.width // 2, box.y + box.height // 2)
    cv2.circle(image, centre, round(radius * box.width), colour, 2)


def recognized(number: int, image: Image, boxes: tuple[Box, ...], persons: tuple[Person, ...]) -> Recognized:
    """Compute the digest, then write names beside the faces."""
    digest = hashlib.sha256(image.tobytes()).hexdigest()
    for box, person in zip(boxes, persons, strict=True):
        if person.label is not None:
            cv2.putText(image, person.label, (box.x, max(12, box.y - 4)), FONT, 1.0, GREEN, 1, cv2.LINE_AA)
    return Recognized(number, image, boxes, persons, digest)


def rows_of(value: Recognized) -> list[list[Any]]:
    return [[value.number, *box, *_named(person)] for box, person in zip(value.boxes, value.persons, strict=True)]


def _named(person: Person) -> tuple[str | None, float | None]:
    """Return name and distance as output; both are None for an unknown face (null in JSON, an empty cell in CSV)."""
    return person.label, None if person.distance is None else round(person.distance, 3)


def encoded(value: Recognized) -> dict[str, Any]:
    faces = [dict(zip(COLUMNS[1:], row[1:], strict=True)) for row in rows_of(value)]
    return {"frame": value.number, "faces": faces, "sha256": value.digest}


def shown(value: Recognized) -> Shown:
    return Shown(value.image, rows_of(value))
