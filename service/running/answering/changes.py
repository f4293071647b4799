"""Requests that change a run; answered in the loop's thread."""

from __future__ import annotations

from service.bodies.coming import seen_from
from service.running.asking.requests import (
    Handler,
    ResetGaps,
    SetBatching,
    SetComing,
    SetCompositions,
    SetInput,
    SetMode,
    SetRate,
    SetSlo,
)
from service.running.building.run import Run
from service.running.checking.rates import rate_of
from service.running.recording.clock import WallClock


class Changes:
    """Of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._manager = run.loop.manager

    def handlers(self) -> tuple[Handler, ...]:
        return (
            SetSlo.by(self._set_slo),
            SetInput.by(self._set_input),
            SetBatching.by(self._set_batching),
            SetRate.by(self._set_rate),
            SetComing.by(self._set_coming),
            SetMode.by(self._set_mode),
            SetCompositions.by(self._set_compositions),
            ResetGaps.by(self._reset_gaps),
        )

    def _set_slo(self, request: SetSlo) -> None:
        self._manager.set_slo(request.slo)

    def _set_input(self, request: SetInput) -> None:
        self._run.intake.set_rate(rate_of(request.input, self._run.checked.spec.apps_dirs))

    def _set_batching(self, request: SetBatching) -> None:
        self._run.bundling.set(request.batching.batching)

    def _set_rate(self, request: SetRate) -> None:
        self._run.intake.set_rate(request.rate)

    def _set_coming(self, request: SetComing) -> None:
        self._run.announced = request.coming
        began_epoch_s = WallClock.now().epoch_s
        self._manager.announce([seen_from(began_epoch_s, each) for each in request.coming])

    def _set_mode(self, request: SetMode) -> None:
        self._manager.set_mode(request.mode, request.composition)
        self._run.loop.look_now()

    def _set_compositions(self, request: SetCompositions) -> None:
        self._run.compositions = request.compositions
        self._manager.set_compositions(request.compositions)

    def _reset_gaps(self, request: ResetGaps) -> None:
        self._run.loop.handovers.gaps.reset()
