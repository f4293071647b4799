"""Samples of a running app: one a second, bounded."""

from __future__ import annotations

from typing import Any

from service.running.history import KEPT_S, History, sample_of


def filled(seconds: float, step_s: float) -> History:
    history = History()
    for k in range(int(seconds / step_s)):
        history.note(k * step_s, lambda k=k: {"t": k * step_s})  # type: ignore[misc]
    return history


def test_one_sample_a_second_however_often_it_is_asked() -> None:
    samples = filled(10, 0.25).since(0)
    assert [each["t"] for each in samples] == [float(k) for k in range(10)]


def test_after_a_pause_the_pace_is_the_same_again() -> None:
    history = History()
    for at_s in (0.0, 50.0, 50.5, 51.0, 51.5, 52.0):
        history.note(at_s, lambda at_s=at_s: {"t": at_s})  # type: ignore[misc]
    assert [each["t"] for each in history.since(0)] == [0.0, 50.0, 51.0, 52.0]


def test_only_what_is_asked_for_and_never_more_than_an_hour() -> None:
    history = filled(KEPT_S + 500, 1.0)
    assert len(history.since(0)) == KEPT_S
    assert [each["t"] for each in history.since(KEPT_S + 490)] == [float(KEPT_S + k) for k in range(490, 500)]


def test_what_was_not_measured_stays_unknown() -> None:
    status: dict[str, Any] = {
        "composition": None,
        "slo": None,
        "slo_status": "none",
        "input_rate_per_s": None,
        "throughput_per_s": None,
        "latency_ms": {"mean": None, "p50": None, "p95": None, "p99": None},
        "stages": [{"name": "f1", "service_time_ms": None}],
    }
    sample = sample_of(status, "2026-01-01T00:00:00Z")
    assert sample["composition"] is None
    assert sample["latency_ms"] == {"mean": None, "p95": None}
    assert sample["service_time_ms"] == {"f1": None}
