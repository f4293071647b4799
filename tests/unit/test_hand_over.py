"""The buffer between a source's thread and its consumer: who waits, and who is woken when."""

import threading

import pytest

from datapipe.sources.source_thread import MOST_BYTES, PATIENT_ITEMS, Encoded, HandOver


class Bench:
    """A hand-over with a hand-moved clock, that counts how often it woke its consumer."""

    def __init__(self, capacity: int = 2) -> None:
        self.now_s, self.woken = 0.0, 0
        self.hand_over = HandOver(capacity, self._wake, lambda: self.now_s)

    def _wake(self) -> None:
        self.woken += 1

    def put(self, count: int = 1) -> None:
        for _ in range(count):
            self.hand_over.put(Encoded("item", (self.now_s,), (self.now_s,)))


def test_who_waits_for_something_is_woken_once_for_all_that_is_there() -> None:
    bench = Bench()
    bench.put(2)
    assert bench.woken == 1
    bench.hand_over.take(1)
    bench.put()
    assert bench.woken == 1, "there is something since it was told"
    assert len(bench.hand_over.take()) == 2
    bench.put()
    assert bench.woken == 2


def test_who_has_enough_is_woken_when_it_is_much_and_has_room_for_it() -> None:
    bench = Bench()
    bench.hand_over.set_patient(True)
    bench.put(PATIENT_ITEMS - 1)
    assert bench.woken == 0
    bench.put()
    assert bench.woken == 1
    assert len(bench.hand_over.take()) == PATIENT_ITEMS


@pytest.mark.parametrize("patient", [False, True])
def test_the_end_is_told_and_nothing_is_lost_by_it(patient: bool) -> None:
    bench = Bench()
    bench.hand_over.set_patient(patient)
    bench.put()
    bench.hand_over.end()
    assert bench.woken == 1 + (not patient)
    assert not bench.hand_over.finished
    assert len(bench.hand_over.take()) == 1
    assert bench.hand_over.finished


@pytest.mark.parametrize("patient", [False, True])
def test_no_more_than_so_many_bytes_wait(patient: bool) -> None:
    bench = Bench(capacity=60)
    bench.hand_over.set_patient(patient)
    for _ in range(4):
        bench.hand_over.put(Encoded("frame", (0.0,), (0.0,)), MOST_BYTES // 4)
    assert bench.woken == 1, "and the consumer knows, also where it has enough"
    waiting = threading.Thread(target=lambda: bench.hand_over.put(Encoded("late", (0.0,), (0.0,)), 1))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive(), "the fifth waits for room"
    assert len(bench.hand_over.take(1)) == 1
    waiting.join(60)
    assert [each.payload for each in bench.hand_over.take()] == ["frame"] * 3 + ["late"]
