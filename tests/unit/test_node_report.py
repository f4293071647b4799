"""What a process sees of its machine: memory, and GPUs through a library that stands for NVML."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from runtime.placement.cluster import Amounts, Cluster, CpuReport, Gpu, Node, NodeReport
from runtime.pools.ray import report
from runtime.pools.ray.report import gpus_of, node_report


class Nvml:
    """The functions of ``pynvml`` that are used. ``lost``: its second device does not answer any more."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - as NVML has it
        return 2

    def nvmlDeviceGetHandleByIndex(self, at: int) -> int:  # noqa: N802
        if self.lost and at:
            raise self.NVMLError("GPU is lost")
        return at

    def nvmlDeviceGetName(self, device: int) -> str:  # noqa: N802
        return "NVIDIA H100" if device else "NVIDIA H200"

    def nvmlDeviceGetUtilizationRates(self, device: int) -> SimpleNamespace:  # noqa: N802
        if device:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(gpu=25, memory=3)

    def nvmlDeviceGetMemoryInfo(self, device: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=80, free=60, used=20)


def test_gpus_tell_their_use_and_memory_and_what_one_does_not_tell_is_none() -> None:
    assert gpus_of(Nvml()) == (Gpu("NVIDIA H200", 0.25, 80, 20), Gpu("NVIDIA H100", None, 80, 20))


def test_no_library_or_a_lost_device_tells_nothing() -> None:
    assert gpus_of(None) == gpus_of(Nvml(lost=True)) == ()


def test_a_machine_without_the_library_or_the_driver_reports_no_gpus() -> None:
    report._nvml.cache_clear()
    assert node_report(gpus=True).gpus == ()
    seen = node_report(gpus=False)
    assert 0 < seen.memory_free_bytes < seen.memory_bytes


@pytest.mark.parametrize(
    ("folder", "usage", "reclaimable"),
    [("", "memory.current", "inactive_file"), ("memory", "memory.usage_in_bytes", "total_inactive_file")],
)
def test_a_container_has_what_its_control_group_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, usage: str, reclaimable: str
) -> None:
    group = tmp_path / folder
    group.mkdir(exist_ok=True)
    (group / usage).write_text("700000000\n")
    (group / "memory.stat").write_text(f"anon 5\n{reclaimable} 300000000\n")
    monkeypatch.setattr(report, "_GROUPS", tmp_path)
    monkeypatch.setattr(report, "memory_bytes", lambda: 1_000_000_000)
    seen = node_report(gpus=False)
    assert (seen.memory_bytes, seen.memory_free_bytes) == (1_000_000_000, 600_000_000)


def node(*busy: float | None) -> Node:
    gpus = tuple(Gpu("one", each, None, None) for each in busy)
    return Node("n", Amounts(4, max(1, len(busy))), seen=NodeReport(CpuReport(4, 4, None), 8, 8, gpus))


@pytest.mark.parametrize(
    ("nodes", "busy"),
    [
        ((node(0.5, 1.0), node(0.25)), 1.75),
        ((node(0.5, None),), None),
        ((node(0.5), node()), None),
        ((node(0.5), Node("new", Amounts(4, 1))), None),
        ((Node("plain", Amounts(4)),), None),
        ((node(0.5), Node("plain", Amounts(4))), 0.5),
    ],
)
def test_the_gpus_at_work_are_known_where_each_tells(nodes: tuple[Node, ...], busy: float | None) -> None:
    assert Cluster(nodes).gpus_busy == busy
