"""Whom a face belongs to: local binary pattern histograms (Ahonen et al. 2004) of a training set."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from apps.faces.detect import Detector, crop, equalised
from apps.samples import cache_dir
from compositions.errors import RecomposeError

Image = NDArray[np.uint8]
SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".webp")
RADIUS, NEIGHBOURS, GRID = 3, 8, 8
THRESHOLD = 180.0
"""Distance beyond which a face belongs to nobody of the training set."""
PORTRAIT_PX = 256
"""A training picture whose sides are below this and in which no face is found is taken to be one."""


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


def gallery_of(folder: Path) -> Gallery:
    """The faces of all pictures in ``folder``; whose they are is told by the subfolder, else by the file's name
    without digits at its end. Pictures without a face are left out.

    Raises: RecomposeError when that leaves nobody.
    """
    detector = Detector(scale=1.1, neighbours=5, smallest=0.06, largest=1.0)  # portraits have faces of any size
    faces, labels = [], []
    for path in pictures(folder):
        face = _face_in(path, detector)
        if face is not None:
            faces.append(face)
            labels.append(_label(path, folder))
    if not faces:
        raise RecomposeError(f"training folder {str(folder)!r} has no picture with a face; give one that has")
    return Gallery(tuple(faces), tuple(labels))


def pictures(folder: Path) -> list[Path]:
    """Raises: RecomposeError when there are none."""
    if not folder.is_dir():
        raise RecomposeError(f"training folder {str(folder)!r} does not exist; give a folder of pictures of faces")
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not found:
        raise RecomposeError(f"training folder {str(folder)!r} has no pictures; {', '.join(SUFFIXES)} count as such")
    return found


def _face_in(path: Path, detector: Detector) -> Image | None:
    """The largest face, or a small picture as a whole."""
    picture = cv2.imread(str(path))
    if picture is None:
        return None
    grey = equalised(np.asarray(picture, dtype=np.uint8))
    boxes = detector.boxes(grey)
    if boxes:
        return crop(grey, max(boxes, key=lambda box: box.width))
    return grey if max(grey.shape) <= PORTRAIT_PX else None


def _label(path: Path, folder: Path) -> str:
    if path.parent != folder:
        return path.parent.relative_to(folder).as_posix()
    return path.stem.rstrip("0123456789_- ") or path.stem


def cached_gallery(folder: Path) -> Path:
    """The file of a folder's gallery, made when the folder's pictures are new or changed."""
    key = hashlib.sha256()
    for path in pictures(folder):
        key.update(path.relative_to(folder).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    place = cache_dir() / f"gallery-{key.hexdigest()[:20]}.npz"
    if not place.exists():
        save(gallery_of(folder), place)
    return place


def save(gallery: Gallery, place: Path) -> None:
    """Appears under its name when it is complete."""
    draft = place.with_suffix(f".{hashlib.sha256(str(gallery.labels).encode()).hexdigest()[:8]}.part.npz")
    arrays = {f"face{number}": face for number, face in enumerate(gallery.faces)}
    np.savez(draft, labels=np.array(gallery.labels), **arrays)  # type: ignore[arg-type]  # numpy's own stub is too narrow
    draft.replace(place)


def load(place: Path) -> Gallery:
    with np.load(place) as stored:
        labels = tuple(str(label) for label in stored["labels"])
        return Gallery(tuple(stored[f"face{number}"] for number in range(len(labels))), labels)
