"""The base class of the face apps: their options, sources and outputs, and the model of each worker."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from apps.contract import App, Options, Output
from apps.data_sets.reader import Reader, Searched, Unversioned
from apps.faces.results import COLUMNS, KIND, THRESHOLD, Detector, Image, Recognized, Recognizer, encoded, load, shown
from apps.frames import Frame, frames_of, scaled
from apps.samples import cache_dir, wheel_photo
from apps.video_out import video_output, write_video

WIDTH, HEIGHT = 462, 260
FRAMES_PER_S = 10.0
SCENES = (("astronaut.png", 90), ("coffee.png", 30), ("astronaut.png", 90), ("chelsea.png", 30), ("astronaut.png", 60))
"""The photos of the clip, each with its number of frames: 30 s in all, four fifths with a face."""
RECIPE = "v1"
SEED = 20


def sample_clip() -> Path:
    """Return an MJPG video of 300 frames, 462×260. Raises: RecomposeError if scikit-image is not installed."""
    place = cache_dir() / f"clip-{RECIPE}.avi"
    if not place.exists():
        write_video(place, _frames(), (WIDTH, HEIGHT), FRAMES_PER_S)
    return place


def sample_training() -> Path:
    """Return a folder with one picture of the person in the clip."""
    folder = cache_dir() / f"faces-{RECIPE}"
    if not (folder / "astronaut.png").exists():
        folder.mkdir(exist_ok=True)
        draft = folder / "astronaut.part"
        draft.write_bytes(wheel_photo("astronaut.png").read_bytes())
        draft.replace(folder / "astronaut.png")
    return folder


def _frames() -> Iterator[Image]:
    """Yield a window that moves over one photo after the other, and zooms."""
    chance = random.Random(SEED)
    for name, count in SCENES:
        photo = np.asarray(cv2.imread(str(wheel_photo(name))), dtype=np.uint8)
        begin, end = _window(photo, chance), _window(photo, chance)
        for number in range(count):
            yield _cut(photo, begin + (end - begin) * number / count)


def _window(photo: Image, chance: random.Random) -> NDArray[np.float64]:
    """Return left, top and width of a window in the upper half of a photo, where portraits have their faces."""
    height, width = photo.shape[:2]
    span = min(width * chance.uniform(0.7, 0.95), height * WIDTH / HEIGHT)
    return np.array([chance.uniform(0, width - span), chance.uniform(0, 0.1) * height, span])


def _cut(photo: Image, window: NDArray[np.float64]) -> Image:
    left, top, span = window
    rows, columns = round(span * HEIGHT / WIDTH), round(span)
    part = photo[round(top) : round(top) + rows, round(left) : round(left) + columns]
    return np.asarray(cv2.resize(part, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA), dtype=np.uint8)


if TYPE_CHECKING:
    from apps.faces.data_set import FaceRecipe


INPUT_CLASSES = {"test": 9, "small": 30, "medium": 90, "large": 450, "huge": 900}
"""Numbers of frames: 0.3, 1, 3, 15 and 30 s at 30 frames/s, as in SPBench's Face Recognizer."""


class FaceOptions(Options):
    training: Path | None = Field(default=None, description="Folder of pictures of faces; default: the sample's")
    gallery: Path | None = Field(
        default=None, description="Data set of recompose ingest, followed while running; replaces training"
    )
    height: int = Field(
        default=260, ge=0, le=4320, description="Rows to which frames are scaled down (small faces: 480); 0: never"
    )
    scale: float = Field(default=1.1, gt=1.0, le=2.0, description="Factor between two searched sizes of faces")
    neighbours: int = Field(default=5, ge=0, le=100, description="Hits required for a face")
    smallest: float = Field(default=0.06, gt=0, le=1, description="Minimum side of a face over the height of the frame")
    largest: float = Field(default=0.6, gt=0, le=1)
    threshold: float = Field(default=THRESHOLD, gt=0, description="Distance beyond which a face is a stranger's")


class FaceApp(App):
    """The base class of the face apps; the last stage returns ``Recognized``."""

    input_classes = INPUT_CLASSES
    options: FaceOptions

    _recognizers: Reader[Recognizer] | Unversioned[Recognizer]

    def prepare(self) -> None:
        """Bring the gallery up to date with its pictures."""
        self._searched().prepare()

    def setup(self) -> None:
        options = self.options
        self._detector = Detector(options.scale, options.neighbours, options.smallest, options.largest)
        self._recognizers = self._searched().open()

    def data_set(self) -> FaceRecipe:
        from apps.faces.data_set import FaceRecipe  # Arrow, which workers do not need

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
