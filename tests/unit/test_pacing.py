"""The frequency manager on a clock that moves only when told; sleeping overshoots as a real one does."""

import pytest

from apps.rates import Binary, Fixed, Increasing
from datapipe.sources.pacing import SLICE_S, FrequencyManager
from datapipe.sources.schedule import Schedule


class Time:
    """A clock whose waits take ``overshoot_s`` longer than asked."""

    def __init__(self, overshoot_s=0.0):
        self.now_s = 100.0
        self.overshoot_s = overshoot_s
        self.waits = []
        self.stop_at_s = float("inf")

    def clock(self):
        return self.now_s

    def wait(self, seconds):
        self.waits.append(seconds)
        if seconds > 0:
            self.now_s += seconds + self.overshoot_s
        return self.now_s >= self.stop_at_s

    def manager(self, pattern, **settings):
        return FrequencyManager(pattern, clock=self.clock, wait=self.wait, **settings)

    def released(self, manager, duration_s, work_s=0.0):
        """When items were released in the next ``duration_s``, the source working ``work_s`` on each."""
        end_s, times = self.now_s + duration_s, []
        self.stop_at_s = end_s
        while manager.turn() and self.now_s < end_s:
            times.append(self.now_s)
            self.now_s += work_s
        self.stop_at_s = float("inf")
        return times


def test_waits_what_the_source_left_of_the_delay():
    time = Time()
    manager = time.manager(Fixed(2.0))
    assert manager.turn()
    time.now_s += 0.150  # the example of the paper: 500 ms less 150 ms of work
    time.waits.clear()
    assert manager.turn()
    assert sum(time.waits) == pytest.approx(0.350)


@pytest.mark.parametrize("rate_per_s", [0.5, 10.0, 100.0, 1000.0, 5000.0])
def test_mean_rate_does_not_drift_though_every_sleep_overshoots(rate_per_s):
    time = Time(overshoot_s=100e-6)
    items = 400
    times = time.released(time.manager(Fixed(rate_per_s)), items / rate_per_s, work_s=20e-6)
    assert len(times) == pytest.approx(items, rel=0.02)


def test_source_slower_than_the_rate_is_not_held_up_and_missed_slots_are_counted():
    time = Time()
    manager = time.manager(Fixed(10.0))
    times = time.released(manager, 10.0, work_s=0.2)
    assert len(times) == 50
    assert manager.missed == pytest.approx(50, abs=3)


def test_after_a_blocked_source_at_most_one_item_is_made_up_for():
    time = Time()
    manager = time.manager(Fixed(10.0))
    manager.turn()
    time.now_s += 5.0
    times = time.released(manager, 1.0)
    assert times[:3] == pytest.approx([105.0, 105.0, 105.1])
    assert manager.missed == 48


def test_zero_rate_waits_in_slices_and_can_be_stopped():
    time = Time()
    manager = time.manager(Binary(10.0, 0.0, 5.0))
    time.stop_at_s = 103.0
    assert not manager.turn()
    assert max(time.waits) <= SLICE_S
    time.stop_at_s = float("inf")
    assert manager.turn()
    assert time.now_s == pytest.approx(105.0, abs=2 * SLICE_S)


def test_replaced_pattern_begins_now_and_ends_a_long_wait():
    time = Time()
    manager = time.manager(Fixed(0.001))
    manager.turn()
    time.now_s += 50.0
    manager.set_pattern(Increasing(10.0, 0.0, 20.0))
    assert manager.offered_per_s(150.0) == 0.0
    assert manager.offered_per_s(155.0) == 10.0
    assert len(time.released(manager, 10.0)) == pytest.approx(100, abs=2)


def test_unpaced_never_waits_but_stops():
    time = Time()
    manager = time.manager(None)
    assert all(manager.turn() for _ in range(100))
    assert time.now_s == 100.0
    assert manager.offered_per_s(100.0) is None
    time.stop_at_s = 100.0
    assert not manager.turn()


def schedule(pattern, **catch_up):
    return Schedule(pattern, 0.0, **({"catch_up_items": 1.0, "catch_up_s": 0.05} | catch_up))


def test_every_slot_tells_when_it_was_due_however_late_it_is_taken():
    """The schedule of a source that is held back for two seconds is the one of a source that is not."""
    prompt, late = schedule(Fixed(10.0), catch_up_s=60.0), schedule(Fixed(10.0), catch_up_s=60.0)
    expected = [slot for k in range(400) if (slot := prompt.take(k / 100)) is not None]
    assert expected == pytest.approx([k / 10 for k in range(40)], abs=1e-6)
    found = [late.take(2.0) for _ in range(20)]
    assert found == pytest.approx(expected[:20], abs=1e-6)
    assert late.lag_s(3.5) == pytest.approx(1.5, abs=1e-6)


def test_a_slot_given_up_is_missed_and_those_after_it_keep_their_time():
    slots = schedule(Fixed(10.0), catch_up_s=1.0)
    assert slots.take(0.0) == 0.0
    assert slots.take(5.0) == pytest.approx(4.0, abs=1e-6)  # the oldest second of five is what may be made up for
    assert slots.missed == pytest.approx(39.0)


def test_offer_counts_what_was_asked_for_whether_it_was_read_or_not():
    time = Time()
    manager = time.manager(Fixed(10.0), catch_up_s=2.0)
    manager.turn()
    time.now_s += 5.0
    offer = manager.offer()
    assert (offer.slots, offer.behind) == (51, 21)
    assert offer.missed == 29
    assert offer.lag_s == pytest.approx(2.0, abs=0.01)
    assert time.manager(None).offer() == (0, 0, 0, 0.0)


def test_nothing_was_due_before_reading_began():
    time = Time()
    manager = time.manager(Fixed(10.0), catch_up_s=10.0)
    time.now_s += 6.0
    manager.begin()
    assert manager.turn().due_s == time.now_s
    assert manager.offer().behind == 0
    assert len(time.released(manager, 1.0)) == pytest.approx(10, abs=1)
