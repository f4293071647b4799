"""Report the CPUs, memory and GPUs of the machine that this process is on.

GPUs are read through NVML by ``nvidia-ml-py``, an optional package. Without it or a device, no GPUs are reported.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from runtime.arena.reference import memory_bytes
from runtime.housekeeping import cpu_report
from runtime.placement.cluster import Gpu, NodeReport

_GROUPS = Path("/sys/fs/cgroup")
_USAGES = (("memory.current", "inactive_file"), ("memory/memory.usage_in_bytes", "total_inactive_file"))
"""Files with a container's memory use, in version 2 or 1 of control groups, and the key of its reclaimable part."""


def node_report(*, gpus: bool) -> NodeReport:
    """Return the resources that this process sees, with the GPUs if ``gpus``."""
    total, machine = memory_bytes(), psutil.virtual_memory()
    free = machine.available if total >= machine.total else min(machine.available, total - _used_bytes(_GROUPS))
    return NodeReport(cpu_report(), total, max(0, free), gpus_of(_nvml()) if gpus else ())


def _used_bytes(groups: Path) -> int:
    for file, reclaimable in _USAGES:
        try:
            used = int((groups / file).read_text())
            stat = dict(line.split() for line in (groups / file).with_name("memory.stat").read_text().splitlines())
            return used - int(stat.get(reclaimable, 0))
        except (OSError, ValueError):  # the other version, or an unknown format
            continue
    return 0


@cache
def _nvml() -> Any:
    """Return the initialised NVML bindings; None without the package or a device."""
    try:
        import pynvml  # imported here: an optional package, of use on nodes with a GPU only

        pynvml.nvmlInit()
    except Exception:  # a class for each cause: no package, no library, no driver, no permission
        return None
    return pynvml


def gpus_of(nvml: Any) -> tuple[Gpu, ...]:
    """Return the GPUs in the order of the driver; ``nvml``: the module, or None."""
    count = 0 if nvml is None else _told(nvml, nvml.nvmlDeviceGetCount)
    devices = [_told(nvml, nvml.nvmlDeviceGetHandleByIndex, at) for at in range(count or 0)]
    return () if None in devices else tuple(_gpu(nvml, each) for each in devices)


def _gpu(nvml: Any, device: Any) -> Gpu:
    asks = nvml.nvmlDeviceGetName, nvml.nvmlDeviceGetUtilizationRates, nvml.nvmlDeviceGetMemoryInfo
    name, use, memory = (_told(nvml, ask, device) for ask in asks)
    used = (None, None) if memory is None else (memory.total, memory.used)
    return Gpu(name or "", None if use is None else use.gpu / 100, *used)


def _told(nvml: Any, ask: Callable[..., Any], *of: Any) -> Any:
    """Return NVML's answer; None if it gives none, as for a device with MIG instances or one that has failed."""
    try:
        return ask(*of)
    except nvml.NVMLError:
        return None
