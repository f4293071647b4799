"""Which kernel there is, by the name that a user gives it."""

from __future__ import annotations

import sys
from typing import Literal

from apps.military_server.kernels.port import Kernel
from apps.military_server.kernels.vectors import VectorKernel
from apps.military_server.terrain import Terrain

KernelName = Literal["numpy", "compiled", "gpu"]


def load_kernel(name: KernelName, terrain: Terrain) -> Kernel:
    """The kernel of that name. Without a GPU that can be used, NumPy's stands in and stderr has a sentence."""
    if name == "compiled":
        from apps.military_server.kernels.compiled import CompiledKernel  # numba: half a second

        return CompiledKernel(terrain)
    if name == "gpu":
        why_not = gpu_fault()
        if why_not is None:
            from apps.military_server.kernels.gpu import GpuKernel

            return GpuKernel(terrain)
        print(f"military_server: no GPU can be used ({why_not}); kernel numpy gives the same results", file=sys.stderr)
    return VectorKernel(terrain)


def gpu_fault() -> str | None:
    """Why no GPU can be used; None: one can."""
    try:
        from numba import cuda

        return None if cuda.is_available() else "numba finds no CUDA driver with a device"
    except Exception as error:  # a driver that is half there raises errors of its own
        return f"{type(error).__name__}: {error}"
