"""Whom a face belongs to: local binary pattern histograms (Ahonen et al. 2004) of a training set."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import cv2
import numpy as np
from numpy.typing import NDArray

from compositions.errors import RecomposeError

Image = NDArray[np.uint8]
FORMAT = 1
"""Of the file."""
KIND = "faces"
"""Of a data set that holds one."""
RADIUS, NEIGHBOURS, GRID = 3, 8, 8
THRESHOLD = 180.0
"""Distance beyond which a face belongs to nobody of the training set."""


class Person(NamedTuple):
    """Whom a face was taken for, and at what distance; nobody: None."""

    label: str | None
    distance: float | None


class Gallery(NamedTuple):
    """Grey faces, and whose they are."""

    faces: tuple[Image, ...]
    labels: tuple[str, ...]


class Recognizer:
    """A trained model; takes about a millisecond a training face to make, once a worker."""

    def __init__(self, gallery: Gallery, threshold: float = THRESHOLD) -> None:
        self._names = sorted(set(gallery.labels))
        self._model = cv2.face.LBPHFaceRecognizer.create(RADIUS, NEIGHBOURS, GRID, GRID, threshold)
        numbers = np.array([self._names.index(label) for label in gallery.labels], dtype=np.int32)
        self._model.train(list(gallery.faces), numbers)

    def person(self, face: Image) -> Person:
        number, distance = self._model.predict(face)
        return Person(self._names[number], float(distance)) if number >= 0 else Person(None, None)


def save(gallery: Gallery, place: Path) -> None:
    arrays: dict[str, Any] = {f"face{number}": face for number, face in enumerate(gallery.faces)}
    np.savez(place, labels=np.array(gallery.labels), **arrays)


def load(place: Path) -> Gallery:
    """Raises: RecomposeError when the file is missing or damaged."""
    try:
        with np.load(place, allow_pickle=False) as stored:
            labels = tuple(str(label) for label in stored["labels"])
            return Gallery(tuple(stored[f"face{number}"] for number in range(len(labels))), labels)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise RecomposeError(f"{str(place)!r} is no gallery of faces ({error}); recompose ingest makes one") from error
