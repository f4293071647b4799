"""Workers that share a GPU wait for each other: no more of them are started than the GPU can serve."""

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pytest

from apps.rates import Fixed
from compositions.enumeration import generate
from compositions.model import Stage
from lab.simulation import simulation
from lab.simulation.machine import Machine
from lab.simulation.pool import SimulatedPool, _Worker
from lab.simulation.scenario import Scenario, SimulatedStage
from lab.simulation.simulation import SimulatedRun
from profiler.slo import SloStatus, parse_slo
from profiler.snapshot import StageTiming
from runtime.dispatch.events import Event, TaskDone, TaskFailed
from runtime.dispatch.instructions import Task
from service.runner.loop import LoopSettings
from service.schemas.base import plain
from service.schemas.figures import StageStatus

LOOK_BACK_S = 1.0
MOST_WORKERS = 9


@dataclass(frozen=True)
class OnGpu(Scenario):
    """A photo takes 4 ms of a core, then 2 ms of a core and 18 ms of the GPU, which can do 55.6 a second. A worker with
    stage ``embed`` reserves a tenth of it."""

    setup: Literal["all", "per-group"] = "per-group"
    spins: bool = False
    """A call that waits for the GPU takes a core all the while, as CUDA's do by default."""

    @property
    def app_stages(self) -> tuple[Stage, ...]:
        return Stage("decode"), Stage("embed", gpus=0.1, setup=self.setup)


class OneGpu(SimulatedPool):
    """What a stage waits for is one GPU, which works for one call at a time, in the order in which they come."""

    def __init__(self, scenario: OnGpu) -> None:
        super().__init__(simulation.costs_of(scenario.stages, scenario.seed, lambda: 0.0), scenario.machine)
        self._spins, self._free_s, self._worked = scenario.spins, 0.0, deque[tuple[float, float]]()

    def _result(self, worker: _Worker, task: Task, timings: tuple[StageTiming, ...]) -> TaskDone | TaskFailed:
        spun = tuple(each._replace(cpu_s=each.wall_s) for each in timings)
        return super()._result(worker, task, spun if self._spins else timings)

    def _computed(self) -> Event | None:
        worker, now_s = self.cores.first_done(), self.now_s()
        work_s = sum(cost.wait_s for cost in worker.costs)
        if not work_s:
            return self._done(worker)
        begin_s = max(now_s, self._free_s)
        self._free_s = begin_s + work_s
        self._worked.append((begin_s, self._free_s))
        queued_s = begin_s - now_s
        worker.costs = tuple(replace(each, wait_s=each.wait_s + queued_s * (each.wait_s > 0)) for each in worker.costs)
        self._time.at(self._free_s, lambda: self._ended(worker))
        return None

    def _ended(self, worker: _Worker) -> Event | None:
        return self._done(worker) if worker.worker in self._workers else None

    def busy(self) -> float:
        """Return the share of the last second in which it worked, as NVML does."""
        now_s = self.now_s()
        while self._worked and self._worked[0][1] < now_s - LOOK_BACK_S:
            self._worked.popleft()
        times = [min(end, now_s) - max(begin, now_s - LOOK_BACK_S) for begin, end in self._worked]
        return sum(max(0.0, each) for each in times) / LOOK_BACK_S


def run(monkeypatch: pytest.MonkeyPatch, scenario: OnGpu, *, measured: bool) -> SimulatedRun:
    pool = OneGpu(scenario)
    monkeypatch.setattr(simulation, "pool_of", lambda _: pool)
    if measured:
        settings = partial(LoopSettings, gpus_busy=pool.busy, room=lambda: {("embed",): 10})
        monkeypatch.setattr(simulation, "LoopSettings", settings)
    found = SimulatedRun(scenario)
    found.advance(scenario.duration_s)
    return found


def scenario(slo: str, rate: float, gpu_share: float = 0.9) -> OnGpu:
    stages = SimulatedStage("decode", 0.004), SimulatedStage("embed", 0.020, wait_share=gpu_share)
    compositions = generate((Stage("decode"), Stage("embed")), max_workers=MOST_WORKERS, replicas=range(1, 9))
    machine = Machine(cores=16, hop_s=0.001)
    return OnGpu(stages, tuple(compositions), parse_slo(slo), Fixed(rate), 60.0, machine)


def outcome(found: SimulatedRun) -> tuple[int, float]:
    """Return the workers and the items a second at the end."""
    snapshot = found.loop.snapshot
    return found.loop.engine.view().composition.workers, snapshot.throughput_per_s


@pytest.mark.parametrize("spins", [False, True])
def test_fastest_stops_at_what_the_gpu_can_serve(monkeypatch: pytest.MonkeyPatch, spins: bool) -> None:
    found = run(monkeypatch, replace(scenario("fastest", 500.0), spins=spins), measured=True)
    assert outcome(found) == (2, pytest.approx(1 / 0.018, rel=0.01))
    assert all(decision.candidates[0].workers <= 3 for decision in found.loop.journal.decisions)
    decode, embed = plain(StageStatus.all_of(found.manager.choices.stages, found.loop.snapshot))
    assert embed["gpu_time_ms"] == pytest.approx(18, rel=0.03)
    assert "gpu_time_ms" not in decode


def test_workers_that_all_load_the_stage_all_reserve_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    for setup, shares in (("per-group", [0.0, 0.1]), ("all", [0.1, 0.1])):
        brief = replace(scenario("fastest", 500.0), duration_s=3.0, setup=setup)
        snapshot = run(monkeypatch, brief, measured=True).loop.snapshot
        assert [stage.gpus for stage in snapshot.stages] == shares
        assert [stage.gpu_s > 0 for stage in snapshot.stages] == [False, True]


def test_fastest_takes_what_it_may_where_nobody_measures_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, per_s = outcome(run(monkeypatch, scenario("fastest", 500.0), measured=False))
    assert workers >= 8
    assert per_s == pytest.approx(1 / 0.018, rel=0.01)


def test_fastest_takes_more_workers_where_they_leave_the_gpu_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, per_s = outcome(run(monkeypatch, scenario("fastest", 500.0, gpu_share=0.3), measured=True))
    assert workers in (4, 5)  # 25 ms of a worker for each 6 ms of the GPU
    assert per_s >= 0.95 / 0.006


def test_expected_cost_asks_for_no_more_workers_than_the_gpu_can_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(monkeypatch, scenario("latency <= 200 ms", 80.0), measured=True)
    workers, per_s = outcome(found)
    assert workers <= 4
    assert per_s == pytest.approx(1 / 0.018, rel=0.01)
    reason = found.loop.result.decision.reason
    assert "the items need 1.4" in reason
    assert "GPUs, but the nodes have 1; more would help" in reason


def test_expected_cost_meets_a_load_that_the_gpu_can_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(monkeypatch, scenario("latency <= 200 ms", 50.0), measured=True)
    assert outcome(found) == (2, pytest.approx(50.0, rel=0.01))
    assert found.loop.result.slo_status is SloStatus.MET
