"""A model that turns images into vectors, made on the spot: an MLP-Mixer (Tolstikhin et al. 2021) with random weights.

The same lines run on NumPy's arrays and on CuPy's. Random weights keep what images have in common: photos that look
alike have vectors that are close. For a meaning one would load trained weights in the same place.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from compositions.errors import RecomposeError

PATCH = 16
"""Side of the square patch that becomes one token, in pixels."""
VECTOR = 128
Device = Literal["cpu", "cuda"]
Array = Any
"""NumPy's or CuPy's."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the model: pixels of an image's side, size of a token, number of layers."""

    side: int
    width: int
    layers: int

    @property
    def tokens(self) -> int:
        return (self.side // PATCH) ** 2


class Mixer:
    """The model on one device."""

    def __init__(self, form: Form, seed: int, device: Device, memory_mb: int = 0) -> None:
        """Make the weights. ``memory_mb``: most memory that it takes on a GPU; 0: all there is. Raises: RecomposeError
        where there is no CuPy or no GPU for ``cuda``."""
        self.form, self._xp = form, arrays_on(device, memory_mb)
        chance = np.random.default_rng(seed)

        def matrix(rows: int, columns: int) -> Array:
            return self._xp.asarray(chance.normal(0, rows**-0.5, (rows, columns)).astype(np.float32))

        self._in = matrix(3 * PATCH**2, form.width)
        self._layers = [
            (
                (matrix(form.tokens, 2 * form.tokens), matrix(2 * form.tokens, form.tokens)),
                (matrix(form.width, 4 * form.width), matrix(4 * form.width, form.width)),
            )
            for _ in range(form.layers)
        ]
        self._out = matrix(form.width, VECTOR)

    def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return a vector of length 1 for each image (n × side × side × 3 → n × 128)."""
        xp = self._xp
        tokens = self._patches(xp.asarray(images)) @ self._in
        for (first, second), (wide, narrow) in self._layers:
            across = self._normal(tokens).transpose(0, 2, 1)
            tokens += (xp.maximum(across @ first, 0) @ second).transpose(0, 2, 1)
            tokens += xp.maximum(self._normal(tokens) @ wide, 0) @ narrow
        vectors = self._normal(tokens).mean(axis=1) @ self._out
        vectors /= xp.linalg.norm(vectors, axis=1, keepdims=True)
        found: NDArray[np.float32] = vectors if xp is np else vectors.get()
        return found

    def _patches(self, images: Array) -> Array:
        """Cut images into tokens (n × tokens × 768), from −0.5 to 0.5."""
        count, across = len(images), self.form.side // PATCH
        cut = images.reshape(count, across, PATCH, across, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
        return cut.reshape(count, self.form.tokens, -1).astype(np.float32) / 255 - 0.5

    def _normal(self, tokens: Array) -> Array:
        """Return each token with mean 0 and variance 1."""
        off = tokens - tokens.mean(axis=2, keepdims=True)
        return off / self._xp.sqrt((off * off).mean(axis=2, keepdims=True) + 1e-6)


def arrays_on(device: Device, memory_mb: int) -> ModuleType:
    """Return the module of arrays of a device."""
    if device == "cpu":
        return np
    try:
        import cupy  # an extra that only machines with a GPU need

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # an incomplete driver may raise any error
        why = f"{type(error).__name__}: {error}"
        raise RecomposeError(f"device cuda fails ({why}); install cupy-cuda12x or cupy-cuda13x, or use cpu") from None
    if memory_mb:
        cupy.get_default_memory_pool().set_limit(memory_mb * 10**6)
    found: ModuleType = cupy
    return found
