"""What a run takes of its machine, what it was given of it, and what it would do with more or less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from control.arbitration.bid import Bid
from service.bodies.figures import Cost
from service.bodies.machine import GrantBody
from service.bodies.status import Status
from service.running.asking.requests import AskBid, Handler, SetGrant
from service.running.building.run import Run
from service.running.recording.record import Record


class MachineShare:
    """Of one run."""

    def __init__(self, run: Run, record: Record) -> None:
        self._loop, self._usage = run.loop, record.usage

    def handlers(self) -> tuple[Handler, ...]:
        return AskBid.by(self._bid), SetGrant.by(lambda request: self._loop.manager.grant(request.grant))

    def told(self, status: Status) -> dict[str, Any]:
        """As fields of ``status``."""
        grant, cost = GrantBody.of(self._loop.manager.granted), self._cost()
        if cost is None:
            return {"grant": grant}
        return {"grant": grant, "cost": cost, "workers": [self._usage.of(worker) for worker in status.workers]}

    def _bid(self, request: AskBid) -> Bid:
        bid, cost = self._loop.manager.bid(request.limits), self._cost()
        return bid if cost is None else replace(bid, uses=replace(bid.uses, cores=cost.cpu_cores))

    def _cost(self) -> Cost | None:
        """None before anything was measured."""
        snapshot, workers = self._loop.snapshot, self._loop.engine.view().workers
        return None if snapshot is None else self._usage.cost(workers, snapshot.cores)
