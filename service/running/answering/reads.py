"""Requests that read a run; answered in the loop's thread, with the bodies of the API."""

from __future__ import annotations

from time import monotonic

from service.bodies.compositions import Choice
from service.bodies.decisions import Decision, QuietRun, Switch
from service.bodies.results import Result, Summary
from service.bodies.status import Sample, SparkStatus, Status
from service.running.answering.machine_share import MachineShare
from service.running.answering.standing import Standing
from service.running.answering.status import Beside, running_status
from service.running.asking import requests as ask
from service.running.building.run import Run
from service.running.recording.record import Record


class Reads:
    """Of one run."""

    def __init__(self, run: Run, record: Record, standing: Standing, share: MachineShare) -> None:
        self._run, self._record, self._standing, self._share = run, record, standing, share
        self._loop, self._checked = run.loop, run.checked
        self._at, self._name = record.clock.text, run.checked.spec.run

    def handlers(self) -> tuple[ask.Handler, ...]:
        return (
            ask.ReadStatus.by(self._status),
            ask.ReadDecisions.by(self._decisions),
            ask.ReadNoChanges.by(self._no_changes),
            ask.ReadSizes.by(lambda request: self._run.bundling.changes(request.limit, self._at, self._name)),
            ask.ReadResults.by(self._results),
            ask.ReadCompositions.by(self._compositions),
            ask.ReadHistory.by(self._history),
            ask.ReadSwitches.by(self._switches),
            ask.ReadSummary.by(self._summary),
        )

    def _history(self, request: ask.ReadHistory) -> list[Sample]:
        return request.thin(self._record.history.since(monotonic() - request.last_s))

    def _status(self, _: ask.ReadStatus) -> Status:
        telemetry, link = self._record.telemetry, self._checked.link
        spark = SparkStatus.model_validate(link.status()) if link else None
        beside = Beside(
            self._record.summary.slo_met_share, telemetry.status() if telemetry else None, spark, self._run.blocked
        )
        spec = self._checked.spec.model_copy(update={"slo": self._loop.manager.slo, "announced": self._run.announced})
        known = self._standing.status(type(self._checked.app), spec)
        status = running_status(known, self._checked.stages, self._loop, beside, self._at)
        run = self._run
        beside_loop = {"items": run.items, "budgets": run.budgets, "batching": run.bundling.status}
        return status.model_copy(update=beside_loop | self._share.told(status))

    def _decisions(self, request: ask.ReadDecisions) -> list[Decision]:
        journal = self._loop.journal
        found = [each for each in journal.decisions if each.id > request.after_id][: request.limit]
        return [Decision.of(journal.with_switches(each), self._at, self._name) for each in found]

    def _results(self, request: ask.ReadResults) -> list[Result]:
        return self._run.window.read(request)

    def _no_changes(self, request: ask.ReadNoChanges) -> list[QuietRun]:
        return [QuietRun.of(each, self._at, self._name) for each in self._loop.journal.no_changes][-request.limit :]

    def _switches(self, _: ask.ReadSwitches) -> list[Switch]:
        return [Switch.of(record, self._at) for record in self._loop.journal.switches]

    def _compositions(self, _: ask.ReadCompositions) -> list[Choice]:
        active, snapshot = self._loop.engine.view().composition, self._loop.snapshot
        return Choice.all_of(self._checked.spec.app, self._run.compositions, active, snapshot)

    def _summary(self, _: ask.ReadSummary) -> Summary:
        return self._record.summary.view(self._run).model_copy(update={"failure": self._standing.failure})
