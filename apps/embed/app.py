"""Embed: photos become vectors, for similarity search. One stage reads on CPUs, one infers on a CPU or a GPU."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from apps.contract import App, Options
from apps.embed.model import PATCH, Device, Form, Mixer
from apps.samples import sample_photos
from compositions.errors import RecomposeError
from compositions.model import Stage

SUFFIXES = {".jpg", ".jpeg", ".png"}


class EmbedOptions(Options):
    device: Device = Field(default="cpu", description="cpu: NumPy; cuda: CuPy on an NVIDIA GPU")
    share: float = Field(default=1.0, gt=0, le=1, description="Share of a GPU that a worker of stage embed reserves")
    memory_mb: int = Field(default=0, ge=0, description="Maximum GPU memory of such a worker, in MB; 0: all of it")
    side: int = Field(default=128, ge=PATCH, le=1024, description=f"Side of images in pixels, a multiple of {PATCH}")
    width: int = Field(default=256, ge=8, le=4096, description="Size of a token; work grows with its square")
    layers: int = Field(default=4, ge=1, le=48, description="Layers of the model; work grows with them")
    seed: int = Field(default=0, ge=0, description="Seed of the weights")

    @field_validator("side")
    @classmethod
    def _check_side(cls, side: int) -> int:
        if side % PATCH:
            raise ValueError(f"side = {side}; must be a multiple of {PATCH}")
        return side


class Embed(App):
    name = "embed"
    description = "Turns photos into vectors, on CPUs or a GPU; the model is made on the spot."
    stages: tuple[Stage, ...] = (Stage("decode"), Stage("embed", batch=True, setup="per-group"))
    options_model: ClassVar[type[Options]] = EmbedOptions
    options: EmbedOptions

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        gpus = self.options.share if self.options.device == "cuda" else 0.0
        self.stages = (Stage("decode"), Stage("embed", batch=True, setup="per-group", gpus=gpus))

    def setup(self, stages: Sequence[str]) -> None:
        """Make the model if the worker runs the stage that uses it."""
        if "embed" in stages:
            form = Form(self.options.side, self.options.width, self.options.layers)
            self._model = Mixer(form, self.options.seed, self.options.device, self.options.memory_mb)

    def decode(self, photo: bytes) -> NDArray[np.uint8]:
        """Return a photo as side × side × 3. Raises: ValueError if the bytes are not a photo."""
        image = cv2.imdecode(np.frombuffer(photo, np.uint8), cv2.IMREAD_COLOR)
        if image is None:
            raise ValueError(f"OpenCV cannot decode these {len(photo)} bytes; send the bytes of a photo's file")
        return np.asarray(cv2.resize(image, (self.options.side, self.options.side)), np.uint8)

    def embed(self, images: list[NDArray[np.uint8]]) -> list[NDArray[np.float32]]:
        """Return a vector of length 1 for each image."""
        return list(self._model(np.stack(images)))

    def items(self, path: Path | None) -> Iterator[bytes]:
        """Yield the photos of a folder, ordered by name; without a folder, the sample photos."""
        folder = sample_photos() if path is None else path
        photos = sorted(each for each in folder.rglob("*") if each.suffix.lower() in SUFFIXES)
        if not photos:
            read = ", ".join(sorted(SUFFIXES))
            raise RecomposeError(f"folder {str(folder)!r} has no photos; give a folder with {read} files")
        return (photo.read_bytes() for photo in photos)

    def from_binary(self, value: bytes | NDArray[Any]) -> bytes:
        if not isinstance(value, bytes):
            raise ValueError("an array is not accepted; push the bytes of a photo's file")
        return value

    def from_json(self, value: Any) -> Any:
        raise ValueError("JSON is not accepted; push the bytes of a photo's file, type application/octet-stream")

    def encode_result(self, value: NDArray[np.float32]) -> list[float]:
        numbers: list[float] = value.astype(np.float64).round(6).tolist()
        return numbers
