"""Choose a kernel by the name that a user gives."""

import sys
from typing import Literal, Protocol

from apps.military_server.kernels.vectors import VectorKernel
from apps.military_server.records import Field
from apps.military_server.terrain import Terrain


class Kernel(Protocol):
    """A kernel. All arguments and results are whole numbers, so all kernels agree exactly. Results may be on a GPU."""

    def explore(self, widths: Field, coordinates: Field) -> Field:
        """Map: features of the squares ahead of every coordinate, in all four directions together (n × 32 × 4).

        Mean height and relief (highest less lowest), and of a thousand squares those under water and those with trees.
        A square area of ``width`` squares a side begins right before the coordinate, in the middle of its side.
        """

    def place(self, features: Field, kinds: Field) -> tuple[Field, Field]:
        """Map-reduce: for every unit, the coordinate with the smallest penalty (the first of equal ones), and this
        penalty: the sum over all features of weight × distance (both n × 16)."""

    def fit(self, penalties: Field) -> Field:
        """Reduce: the number of well-placed units of each tuple (n)."""


KernelName = Literal["numpy", "compiled", "gpu"]


def load_kernel(name: KernelName, terrain: Terrain) -> Kernel:
    """Return the kernel of that name. Without a usable GPU, use NumPy's kernel, and print a message to stderr."""
    if name == "compiled":
        from apps.military_server.kernels.compiled import CompiledKernel  # numba takes half a second to import

        return CompiledKernel(terrain)
    if name == "gpu":
        why_not = gpu_fault()
        if why_not is None:
            from apps.military_server.kernels.gpu import GpuKernel

            return GpuKernel(terrain)
        print(f"military_server: no GPU can be used ({why_not}); kernel numpy gives the same results", file=sys.stderr)
    return VectorKernel(terrain)


def gpu_fault() -> str | None:
    """Return the reason why no GPU can be used; None if one can."""
    try:
        from numba import cuda

        return None if cuda.is_available() else "numba finds no CUDA driver with a device"
    except Exception as error:  # an incomplete driver may raise any error
        return f"{type(error).__name__}: {error}"
