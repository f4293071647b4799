"""Regulator ``spar``: the latency-aware degree of parallelism in SPar (Vogel et al. 2018, section 4, algorithm 1)."""

from __future__ import annotations

from compositions.wording import figure
from control.regulating.port import Regulator, ReplicaChoice, Step
from control.regulating.settings import RegulatorSettings


class Spar(Regulator):
    """Above the target ``scaling_factor`` replicas less, clearly below it as many more, for throughput.

    Its sign is that of a source that reads as fast as it can: there more replicas contend for the cores and raise the
    latency. With a paced source too few replicas raise it too, by queueing, and this regulator then makes it worse.

    Algorithm 1 is an image in the paper. That "significantly lower" means below target · (1 − threshold) is read from
    the text around it; that a step without a finished item changes nothing is inferred.
    """

    name = "spar"

    def __init__(self, settings: RegulatorSettings) -> None:
        self._settings = settings
        self._target_s = settings.target_ms / 1e3

    def regulate(self, step: Step) -> ReplicaChoice:
        if step.latency_s is None:
            return ReplicaChoice(step.replicas, "spar: no item was finished in this step")
        replicas = min(max(step.replicas + self._change(step.latency_s), 1), self._settings.most)
        return ReplicaChoice(replicas, self._reason(step.latency_s, replicas))

    def _change(self, latency_s: float) -> int:
        if latency_s > self._target_s:
            return -self._settings.scaling_factor
        if latency_s < self._target_s * (1 - self._settings.threshold):
            return self._settings.scaling_factor
        return 0

    def _reason(self, latency_s: float, replicas: int) -> str:
        low = self._settings.target_ms * (1 - self._settings.threshold)
        bounds = f"{figure(low, 4)} to {figure(self._settings.target_ms, 4)} ms"
        seen = f"latency {figure(latency_s * 1e3, 4)} ms against {bounds}"
        return f"spar: {seen}: {replicas} of at most {self._settings.most}"
