"""Controller ``pid``: proportional, integral and derivative of the relative error (Leonarczyk 2024, algorithm 4.6)."""

from __future__ import annotations

from compositions.batch_settings import BatchSettings
from control.batching.sampled import Sampled


class Pid(Sampled):
    """Its output is the size itself, not a step.

    Time between decisions is 1 (inferred: with seconds the gains of table 5.5 could not give the plotted terms). An
    output below 1 resets the integral to 0, as algorithm 4.6 has it; the text says "to the minimum batch size".

    **Erratum.** The last line of algorithm 4.6 returns ``min(size, 1)``, which is never more than one item; it must be
    the maximum. Here the bounds of the settings do that.
    """

    name = "pid"

    def __init__(self, settings: BatchSettings) -> None:
        super().__init__(settings)
        self._target_s, self._gains = settings.aim.target_s, settings.gains
        self._integral = self._error = 0.0

    def decide(self, latency_s: float, size: float) -> float:
        error = (self._target_s - latency_s) / self._target_s
        self._integral += error
        derivative, self._error = error - self._error, error
        gains = self._gains
        output = gains.kp * error + gains.ki * self._integral + gains.kd * derivative
        if output < 1:
            self._integral = 0.0
        return output
