"""CPU and memory of the app's own processes: this one, where the runner is, and its workers on this machine."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


class Usage:
    """Asked again and again; of each process it counts from when it was first seen."""

    def __init__(self) -> None:
        self._processes: dict[int, psutil.Process] = {}

    def measure(self, workers: Iterable[int]) -> tuple[float, float]:
        """Per cent of a core since the last call, and MB that are theirs alone."""
        percent = memory_bytes = 0.0
        for process in self._present({psutil.Process().pid, *workers}):
            try:
                with process.oneshot():
                    percent += process.cpu_percent()
                    memory_bytes += _private_bytes(process.memory_info())
            except psutil.Error:  # it has ended meanwhile
                continue
        return percent, memory_bytes / 1e6

    def _present(self, pids: set[int]) -> list[psutil.Process]:
        for pid in pids - self._processes.keys():
            try:
                self._processes[pid] = psutil.Process(pid)
            except psutil.Error:
                continue
        self._processes = {pid: process for pid, process in self._processes.items() if pid in pids}
        return list(self._processes.values())


def _private_bytes(memory: object) -> float:
    """Without what is shared with others, libraries above all, where the system tells that."""
    return float(getattr(memory, "rss", 0) - getattr(memory, "shared", 0))
