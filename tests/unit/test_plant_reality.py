"""Recordings of real runs and their replay in the gym's plant; no run on Ray here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab.benchmarks.reality.recording import Recording, from_json, to_json
from lab.benchmarks.reality.replay import compare, figures, replay, taken_slots
from lab.benchmarks.reality.scenarios import KILL, SCENARIOS, Scenario, due_times

ONE = Scenario("one", "synthetic", "Seq(f1,f2)", "even", 0.5, 0.1, seconds=10.0)


def _recording(due_s: list[float], cpu_s: float, **changes: object) -> Recording:
    due = np.array(due_s)
    costs = {name: np.full(len(due), cpu_s) for name in ("f1", "f2")}
    made = Recording(
        "one", 2, ("f1", "f2"), (), 1.0, due, due + 2 * cpu_s, costs, costs, len(due),
        0.002, 0.001, 1.0, 0.0005, 0.0005, ((-1.0, 0.0), (0.0, 0.0)),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", ["even", "poisson", "waves", "bursts"])
def test_every_load_has_the_rate_that_was_asked_for(shape: str) -> None:
    due_s = due_times(replace(ONE, shape=shape, seconds=60.0), 100.0)  # type: ignore[arg-type]
    assert len(due_s) == pytest.approx(6000, rel=0.05)
    assert np.all(np.diff(due_s) >= 0)
    assert 0 <= due_s[0] < due_s[-1] < 60


def test_the_same_scenario_is_due_at_the_same_times() -> None:
    assert np.array_equal(due_times(SCENARIOS[0], 50.0), due_times(SCENARIOS[0], 50.0))


def test_a_recording_survives_its_file() -> None:
    recording = _recording([0.0, 0.5], 0.01, delivered_s=np.array([0.02, np.nan]))
    read = from_json(to_json(recording))
    assert (read.scenario, read.stages, read.hop_s) == (recording.scenario, recording.stages, recording.hop_s)
    assert np.allclose(read.delivered_s, recording.delivered_s, equal_nan=True)
    assert np.allclose(read.cpu_s["f2"], recording.cpu_s["f2"])


def test_an_item_alone_takes_its_stages_and_the_hop() -> None:
    recording = _recording([0.5, 1.5, 2.5], 0.01)
    assert replay(recording, ONE) - recording.due_s == pytest.approx([0.022] * 3)


def test_a_stage_that_waits_leaves_the_core_to_others() -> None:
    recording = _recording([0.5] * 4, 0.01)
    walls = {name: cpu_s + 0.1 for name, cpu_s in recording.cpu_s.items()}
    waiting = replace(ONE, composition="Par*4(f1,f2)", waits=("f1", "f2"))
    assert replay(replace(recording, wall_s=walls), waiting).max() < 0.5 + 0.2 + 0.05


def test_a_death_delays_until_another_worker_is_there() -> None:
    recording = _recording([0.5 * number for number in range(1, 9)], 0.01)
    latency_s = replay(recording, replace(ONE, events=((1.75, KILL),))) - recording.due_s
    assert latency_s.max() == pytest.approx(0.77, abs=0.05)  # due at 2.0, and the next worker is there at 2.75


def test_cores_that_others_use_are_taken_as_often_as_measured() -> None:
    slots = taken_slots(_recording([0.0, 10.0], 0.01, others=((0.0, 0.25),)), 0.0)
    at_s = np.array([at_s for at_s, _ in slots])
    held = np.diff(at_s) @ np.array([count for _, count in slots[:-1]])
    assert held / at_s[-1] == pytest.approx(0.25, abs=0.01)


def test_figures_count_a_failed_item_as_late() -> None:
    found = figures(np.array([0.0, 1.0]), np.array([0.05, np.nan]), 0.1)
    assert (found.share, found.p50_s) == (0.5, pytest.approx(0.05))


def test_equal_runs_have_ratios_of_one() -> None:
    recording = _recording([0.5, 1.5, 2.5], 0.01, delivered_s=np.array([0.522, 1.522, 2.522]))
    row = compare(recording, ONE)
    assert [getattr(row.ratio, name) for name in ("p50_s", "p95_s", "share")] == pytest.approx([1.0] * 3, rel=1e-3)
