"""The data set of the face apps: the faces in a folder of pictures, each with the name of its person."""

import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, cast

import cv2
import numpy as np
import pyarrow as pa

from apps.data_sets.rows import Rows
from apps.faces.results import FORMAT, KIND, Detector, Image, crop, equalised, save
from compositions.errors import RecomposeError

ROWS = 1
"""Version of the faces; raise it with any change of the detection."""
SEARCH: dict[str, Any] = {"scale": 1.1, "neighbours": 5, "smallest": 0.06, "largest": 1.0}
"""Portraits have faces of any size."""
_own = threading.local()
PORTRAIT_PX = 256
"""Maximum side, in pixels, of a picture that counts as a face itself if no face is found in it."""


class FaceRecipe:
    """A recipe with one row per picture: its largest face. The subfolder, else the file's name, names the person."""

    kind = KIND
    suffixes = frozenset({".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".webp"})
    columns = pa.schema([("label", pa.string()), ("height", pa.int32()), ("width", pa.int32()), ("face", pa.binary())])

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self.parameters = {"rows": ROWS, "portrait_px": PORTRAIT_PX, **SEARCH}

    @property
    def index_parameters(self) -> dict[str, Any]:
        return {"format": FORMAT}

    @property
    def folder(self) -> Path:
        return self._folder()

    def rows(self, path: str, data: bytes) -> list[dict[str, Any]]:
        face = _face_in(path, data)
        return [{"label": label(path), "height": face.shape[0], "width": face.shape[1], "face": face.tobytes()}]

    def write_index(self, rows: Rows, place: Path) -> None:
        labels = tuple(label for some in rows for label in some["label"].to_pylist())
        faces = (
            np.frombuffer(row["face"], np.uint8).reshape(row["height"], row["width"])
            for some in rows
            for row in some.to_pylist()
        )
        save(faces, labels, place)


def label(path: str) -> str:
    place = PurePosixPath(path)
    return place.stem.rstrip("0123456789_- ") or place.stem if len(place.parts) == 1 else place.parent.as_posix()


def _detector() -> Detector:
    """Return this thread's detector, as a cascade serves only one caller at a time."""
    if not hasattr(_own, "detector"):
        _own.detector = Detector(**SEARCH)
    return cast(Detector, _own.detector)


def _face_in(path: str, data: bytes) -> Image:
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    if picture is None:
        raise RecomposeError(f"{path} cannot be decoded as a picture")
    grey = equalised(np.asarray(picture, dtype=np.uint8))
    boxes = _detector().boxes(grey)
    if boxes:
        return crop(grey, max(boxes, key=lambda box: box.width))
    if max(grey.shape) > PORTRAIT_PX:
        raise RecomposeError(f"there is no face in {path}")
    return grey
