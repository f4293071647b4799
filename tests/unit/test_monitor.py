"""The collector: what it reports of a stream that it was told of, and when it says that it does not know."""

from typing import Any

import pytest

from profiler.monitor import LATENCY_BOUNDS_S, Monitor, MonitorSettings, Running
from profiler.service_time import GpuUse
from profiler.snapshot import Demand, RateWindow, StageTiming
from profiler.windows import input_rate_change


@pytest.fixture
def seen() -> Monitor:
    return Monitor(MonitorSettings(), ["a", "b"], cores=2)


def look(seen: Monitor, now_s: float, in_flight: int = 0) -> Any:
    """Return a snapshot, of which a test knows what it has."""
    return seen.snapshot(now_s, Running("1", False, 0.0, 0, in_flight, 3, None))


def stream(seen: Monitor, per_s: float, from_s: float, to_s: float, latency_s: float = 0.2) -> None:
    """A regular stream, each item delivered ``latency_s`` after its arrival, dispatched half-way."""
    for i in range(round((to_s - from_s) * per_s)):
        arrived_s = from_s + i / per_s
        seen.record_arrivals([arrived_s])
        seen.record_deliveries(arrived_s + latency_s, [arrived_s], arrived_s + latency_s / 2, [arrived_s])


def test_a_new_monitor_knows_nothing_and_says_so(seen: Monitor) -> None:
    snapshot = look(seen, 1000.0)
    assert (snapshot.input_rate_per_s, snapshot.throughput_per_s, snapshot.latency, snapshot.inside) == (None,) * 4
    assert (snapshot.queued_change_per_s, snapshot.stages, snapshot.delivered) == (None, (), 0)
    assert (snapshot.window_start_s, snapshot.input_rate_windows) == (1000.0, ())


def test_the_use_of_gpus_is_a_mean_and_until_it_is_known_a_call_has_its_gpu_all_the_time(seen: Monitor) -> None:
    """Ten calls a second of 50 ms, half of which is the GPU's; it was idle before they began."""

    def gpu_s(now_s: float, busy: float) -> list[float]:
        use = GpuUse(["b"], {"a": 0.0, "b": 0.5}, 0.5, busy)
        return [stage.gpu_s for stage in seen.snapshot(now_s, Running("1", False, 0.0, 0, 0, 1, gpus=use)).stages]

    assert gpu_s(0.0, 0.0) == []
    for turn in range(1, 101):
        seen.record_timings(turn / 10, [StageTiming("a", 0.01, 0.01), StageTiming("b", 0.05, 0.01)])
        found = gpu_s(turn / 10, 0.0 if turn < 10 else 0.2 if turn % 2 else 0.3)
        assert found == pytest.approx([0.0, 0.05]) or turn > 30
    assert found == pytest.approx([0.0, 0.025], rel=0.05)


def test_the_window_counts_only_what_came_after_the_reset(seen: Monitor) -> None:
    stream(seen, 10.0, 0.0, 20.0, latency_s=2.0)
    seen.reset_window(22.0)
    assert (look(seen, 22.0).delivered, look(seen, 22.0).throughput_per_s) == (0, None)
    stream(seen, 5.0, 22.0, 25.0, latency_s=0.1)
    snapshot = look(seen, 25.0)
    assert (snapshot.window_start_s, snapshot.delivered) == (22.0, 15)
    assert (snapshot.throughput_per_s, snapshot.latency.mean_s) == pytest.approx((5.0, 0.1))


def test_offered_rate_counts_not_what_a_full_buffer_let_in(seen: Monitor) -> None:
    seen.set_offered_rate(0.0, 10.0)
    stream(seen, 4.0, 0.0, 15.0)
    assert look(seen, 10.0).input_rate_per_s == pytest.approx(10.0)
    seen.set_offered_rate(10.0, 20.0)
    assert look(seen, 15.0).input_rate_per_s == pytest.approx(15.0)
    seen.set_offered_rate(15.0, None)
    assert look(seen, 15.0).input_rate_per_s == pytest.approx(4.0)


def test_a_step_of_the_offered_rate_shows_within_two_seconds(seen: Monitor) -> None:
    seen.set_offered_rate(0.0, 2.0)
    assert input_rate_change(2.0, look(seen, 30.0).input_rate_windows) is None
    seen.set_offered_rate(30.0, 12.0)
    shown = [at_s for at_s in (30.5, 31.0, 31.5, 32.0) if input_rate_change(2.0, look(seen, at_s).input_rate_windows)]
    assert shown == [31.5, 32.0]
    assert look(seen, 32.0).input_rate_windows == (RateWindow(12.0, 1.0), RateWindow(12.0, 1.0))


def test_profiles_and_hop(seen: Monitor) -> None:
    assert look(seen, 0.0).hop_s == MonitorSettings().hop_s
    seen.record_timings(1.0, (StageTiming("a", 0.1, 0.08), StageTiming("b", 0.3, 0.0)))
    for hop_s in (0.001, 0.002, 9.0):
        seen.record_hop(hop_s)
    snapshot = look(seen, 1.0)
    assert [(p.name, p.service_time_s, p.cpu_time_s) for p in snapshot.stages] == [("a", 0.1, 0.08), ("b", 0.3, 0.0)]
    assert snapshot.hop_s == 0.002


def test_a_hop_is_priced_for_the_average_worker_not_for_the_average_task(seen: Monitor) -> None:
    for _ in range(300):
        seen.record_hop(0.0001, "near")
    for _ in range(5):
        seen.record_hop(0.0027, "far")
    seen.record_hop(9.0, "gone")

    def hop_s(**workers_on: int) -> float:
        return seen.snapshot(1.0, Running("1", False, 0.0, 0, 0, 3, None, workers_on)).hop_s

    assert hop_s(near=2, far=2) == pytest.approx(0.0014)
    assert hop_s(near=3, far=1) == pytest.approx(0.00075)
    assert hop_s(near=2, new=2) == 0.0001
    assert hop_s(new=1) == pytest.approx(0.0001), "of all that are known"


def test_latency_counts_from_when_an_item_was_due_and_beside_it_from_when_it_was_read(seen: Monitor) -> None:
    """A source held back for two seconds: what its items waited for is two seconds more than what was read shows."""
    for i in range(20):
        seen.record_deliveries(5.0 + i / 10, [4.9 + i / 10], 4.95 + i / 10, [2.9 + i / 10])
    looked = look(seen, 7.0)
    assert (looked.latency.mean_s, looked.read_latency.mean_s) == (pytest.approx(2.1), pytest.approx(0.1))


def test_what_is_due_and_not_admitted_grows_as_it_is_told(seen: Monitor) -> None:
    for i in range(21):
        seen.record_demand(i / 4, Demand(offered=10 * i, admitted=6 * i, missed=i, lag_s=0.0))
    demand = look(seen, 5.0).demand
    assert (demand.behind, demand.growth_per_s) == (60, pytest.approx(12.0))


def test_a_stream_in_bundles_is_counted_in_items(seen: Monitor) -> None:
    for bundle in range(300):  # ten bundles a second of a hundred items each, read 1 ms apart, out 0.2 s after the last
        read_s = [1000.0 + bundle / 10 + item / 1000 for item in range(100)]
        out_s = read_s[-1] + 0.2
        seen.record_arrivals(read_s)
        seen.record_deliveries(out_s, read_s, read_s[-1], read_s)
        seen.record_timings(out_s, (StageTiming("a", 0.05, 0.04),), 100)
    snapshot = look(seen, 1030.0)
    assert (snapshot.input_rate_per_s, snapshot.throughput_per_s) == pytest.approx((1000.0, 1000.0), rel=0.01)
    assert [window.rate_per_s for window in snapshot.input_rate_windows] == pytest.approx([1000.0] * 2, rel=0.06)
    assert snapshot.delivered == pytest.approx(10_000, rel=0.02)
    assert snapshot.latency.samples == snapshot.delivered
    assert snapshot.latency.mean_s == pytest.approx(0.2495, abs=0.001)
    assert snapshot.latency.p95_s == pytest.approx(0.295, abs=0.015)
    [a] = snapshot.stages
    assert (a.service_time_s, a.cpu_time_s) == (pytest.approx(0.0005), pytest.approx(0.0004))
    assert (a.samples, a.busy, snapshot.bundle_items) == (30_000, pytest.approx(0.5, rel=0.02), 100)


def test_a_stall_counts_from_the_last_delivery_or_from_when_something_came_into_an_empty_stream(seen: Monitor) -> None:
    def stalled_at(now_s: float, in_flight: int) -> Any:
        seen.record_demand(now_s, Demand(1, 1, 0, 0.0))
        return look(seen, now_s, in_flight=in_flight).demand.stalled_s

    assert stalled_at(3.0, 1) == 0.0, "before the first delivery it starts"
    seen.record_deliveries(4.0, [3.9], 3.9, [3.9])
    assert stalled_at(5.0, 1) == pytest.approx(1.0)
    assert stalled_at(9.0, 0) == pytest.approx(0.0), "empty"
    assert stalled_at(12.0, 1) == pytest.approx(3.0)


def test_latencies_of_all_items_are_counted_once(seen: Monitor) -> None:
    seen.record_deliveries(1.0, [0.99, 0.5], 0.9, [0.996, 0.7])
    look(seen, 1.5)
    look(seen, 2.0)
    seen.record_deliveries(2.5, [2.0] * 512, 2.0, [0.0] * 512)
    look(seen, 3.0)
    counts = dict(zip((*LATENCY_BOUNDS_S, "all"), seen.latencies.counts, strict=True))
    assert (counts[0.0025], counts[0.005], counts[0.5], counts[2.5], counts["all"]) == (0, 1, 2, 514, 514)
    assert seen.latencies.sum == pytest.approx(0.004 + 0.3 + 512 * 2.5)
