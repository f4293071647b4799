"""Requests to Ray's autoscaler: as many cores and workers as the load needs, and for ten minutes what it needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from apps import registry
from compositions.model import Stage
from compositions.resources import Need
from service.daemon.nodes import KEPT_S, Kept, wanted_by
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.schemas.figures import StageStatus
from service.schemas.spec import RunSpec
from service.schemas.status import State, Status, resting
from tests.support.fakes import fake_daemon

CORE, GPU = Need(cpus=1.0), Need(gpus=0.5)
DECODE, DETECT = Stage("decode"), Stage("detect", gpus=0.5, setup="per-group")
REST = resting(registry.find("synthetic"), State.STABLE, RunSpec(app="synthetic"), None)


def loaded(rate_per_s: float | None, *times_ms: tuple[str, float, float]) -> Status:
    """``times_ms``: name, service time and CPU time of each measured stage."""
    stages = [
        StageStatus.all_of([Stage(name)], None)[0].model_copy(update={"service_time_ms": all_ms, "cpu_time_ms": own_ms})
        for name, all_ms, own_ms in times_ms
    ]
    return REST.but(input_rate_per_s=rate_per_s, stages=stages)


@pytest.mark.parametrize(
    ("status", "stages", "wanted"),
    [
        (loaded(20, ("decode", 100, 40)), [DECODE], {CORE: 1}),  # 0.8 of a core, busy for 0.8 of the time
        (loaded(21, ("decode", 100, 40)), [DECODE], {CORE: 2}),
        (loaded(20, ("decode", 10, 10), ("detect", 100, 1)), [DECODE, DETECT], {CORE: 1, GPU: 3}),
        (loaded(None, ("decode", 100, 40)), [DECODE], {}),
    ],
)
def test_load_and_times_say_what_is_needed(status: Status, stages: Sequence[Stage], wanted: dict[Need, int]) -> None:
    assert wanted_by(status, stages) == wanted


def test_more_is_asked_for_at_once_and_less_after_ten_minutes_of_less() -> None:
    kept = Kept()
    assert kept.at(0.0, Counter({CORE: 2})) == {CORE: 2}
    assert kept.at(5.0, Counter({CORE: 5, GPU: 1})) == {CORE: 5, GPU: 1}
    assert kept.at(KEPT_S, Counter({CORE: 1})) == {CORE: 5, GPU: 1}
    assert kept.at(KEPT_S + 6, Counter({CORE: 1})) == {CORE: 1}


@pytest.mark.parametrize("autoscale", [True, False])
def test_a_service_asks_only_if_told_to(disk: DaemonStore, monkeypatch: pytest.MonkeyPatch, autoscale: bool) -> None:
    asked: list[Sequence[Need]] = []
    monkeypatch.setattr(LocalHost, "request", lambda _, workers: asked.append(workers))
    daemon = fake_daemon(disk)
    daemon.nodes.autoscale = autoscale
    daemon.apps.start(RunSpec(app="synthetic"))
    for _ in range(2):
        daemon.nodes.look()
    assert asked == ([[]] if autoscale else []), "once, unless it changes"
