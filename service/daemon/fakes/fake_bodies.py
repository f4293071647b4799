"""What is told of a run that computes nothing, in the bodies of the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compositions.model import Composition
from control.arbitration.bid import Bid, Reach
from control.decisions import Grant, Mode, Trigger
from profiler.budget import Budget
from service.bodies.base import utc_now
from service.bodies.compositions import ActiveComposition, Possibility, WhatIf
from service.bodies.decisions import Decision, QuietRun
from service.bodies.figures import Items
from service.bodies.machine import GrantBody
from service.bodies.spec import RunSpec
from service.running.asking.requests import AskBid, ReadWhatIf, SetGrant


def figures(active: Composition, spec: RunSpec, waiting: int, delivered: int) -> dict[str, object]:
    """Of a status."""
    return {
        "composition": ActiveComposition.of(active),
        "input_rate_per_s": spec.input.rate_per_s,
        "queued": waiting,
        "items": Items(accepted=delivered + waiting, delivered=delivered, failed=0, shed=0),
    }


def quiet_run(at: str, run: str | None) -> QuietRun:
    return QuietRun(reason="no SLO is set", first_at=at, last_at=at, count=1, run=run)


def decision(number: int, trigger: Trigger, before: str, to: str, run: str | None) -> Decision:
    return Decision(
        id=number,
        at=utc_now(),
        trigger=trigger,
        from_=before,
        to=to,
        reason=f"told to run {to}",
        candidates=[],
        trials=0,
        duration_s=0.0,
        gap_ms=None,
        drain_estimate_ms=None,
        drain_actual_ms=None,
        run=run,
    )


def what_if(question: ReadWhatIf, app: str, choices: Sequence[Composition], active: str) -> WhatIf:
    """Nothing is predicted."""
    return WhatIf(
        app=app,
        cores=question.cores,
        replicas=question.replicas,
        input_rate_per_s=question.rate_per_s,
        choice=None,
        reason="nothing is measured here",
        compositions=[_unknown(each, each.name == active) for each in choices],
        left_out=0,
    )


@dataclass(slots=True)
class Share:
    """Of a machine's budget."""

    needs: int = 1
    """Units, for all of its objective."""
    switching: bool = False
    """Nobody can tell for a while."""
    grant: Grant | None = None

    def keep_to(self, request: SetGrant) -> None:
        self.grant = request.grant

    def told(self) -> dict[str, object]:
        """Of a status."""
        return {"grant": GrantBody.of(self.grant)}

    def bid(self, request: AskBid, mode: Mode, active: Composition) -> Bid:
        """With fewer units it does in proportion."""
        uses = Budget(workers=active.workers)
        if mode is not Mode.AUTO or self.switching:
            return Bid(None, mode is Mode.AUTO, uses, self.grant)
        reach = tuple(Reach(min(1.0, units / self.needs), f"{units} wide") for units, _ in enumerate(request.limits, 1))
        return Bid(reach, uses=uses, grant=self.grant)


def _unknown(composition: Composition, active: bool) -> Possibility:
    return Possibility(
        active=active,
        predicted_throughput_per_s=None,
        predicted_latency_ms=None,
        **dict(ActiveComposition.of(composition)),
    )
