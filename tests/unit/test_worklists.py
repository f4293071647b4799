"""Worklists of operators by hand: who may have which tuple, in the three designs for keys; and the reorder ring."""

from lab.papers.prasaad.station import ReorderRing
from lab.papers.prasaad.worklists import Entry, Hybrid, Owned, Partitioned, Worklist
from runtime.dispatch.keyed.partitions import COUNTED

ANN, BOB, CAT = 1, 2, 3
"""Workers."""


def filled(worklist: Worklist, partitions: str) -> Worklist:
    """A tuple for each letter, in this order; the letter is its partition."""
    for serial, letter in enumerate(partitions, 1):
        worklist.put(Entry(serial, ord(letter) - ord("a"), serial))
    return worklist


def taken(worklist: Worklist, worker: int, room_to: int = 1000) -> int | None:
    """Serial number of what a worker gets."""
    entry = worklist.take(worker, room_to)
    return entry and entry.serial


def done(worklist: Worklist, worker: int, partition: str) -> bool:
    return worklist.done(worker, ord(partition) - ord("a"))


# --- by name ---------------------------------------------------------------------------------------------------------


# --- without keys ----------------------------------------------------------------------------------------------------


# --- partitioned: figure 6 -------------------------------------------------------------------------------------------


def test_partitioned_a_worker_has_a_queue_for_its_turn_and_goes_out_of_order() -> None:
    worklist = filled(Partitioned(2), "abaab")
    assert [taken(worklist, ANN) for _ in range(3)] == [1, 3, 4]
    assert taken(worklist, ANN) is None, "nothing of another partition in the same turn"
    assert [taken(worklist, BOB), taken(worklist, BOB)] == [2, 5]
    assert not worklist.ready(1000)


def test_partitioned_a_worker_comes_back_to_the_queue_that_it_had() -> None:
    worklist = filled(Partitioned(2), "abab")
    assert taken(worklist, BOB) == 1
    assert taken(worklist, ANN) == 2
    worklist.left(ANN)
    worklist.left(BOB)
    assert taken(worklist, ANN) == 4
    worklist.left(ANN)
    assert taken(worklist, ANN) == 3, "hers is empty"


# --- hybrid: figure 7 ------------------------------------------------------------------------------------------------


def test_hybrid_a_tuple_of_a_partition_in_work_is_left_to_its_worker_and_the_next_taken() -> None:
    worklist = filled(Hybrid(3), "aabac")
    assert taken(worklist, ANN) == 1
    assert taken(worklist, BOB) == 3, "2 is left to Ann"
    assert taken(worklist, CAT) == 5, "and 4"
    assert done(worklist, ANN, "a"), "so she goes on"
    assert taken(worklist, ANN) == 2
    assert done(worklist, ANN, "a")
    assert taken(worklist, ANN) == 4
    assert not done(worklist, ANN, "a")
    assert worklist.waiting == 0


# --- owned: the dispatcher's ------------------------------------------------------------------------------------------


def test_owned_only_its_owner_takes_a_partition_the_oldest_tuple_first() -> None:
    worklist = filled(Owned(4, 2), "abcda")
    assert taken(worklist, 1) == 2
    assert taken(worklist, 0) == 1
    done(worklist, 0, "a")
    assert taken(worklist, 0) == 3, "5 is behind it in the order of arrival"
    done(worklist, 0, "c")
    assert taken(worklist, 0) == 5


def test_owned_skewed_partitions_get_another_owner_who_waits_for_what_is_in_work() -> None:
    worklist = Owned(4, 2)
    for serial in range(1, 1 + COUNTED * 4):
        worklist.put(Entry(serial, serial % 2 * 2, serial))  # a and c alone come: both are worker 0's
        if serial == 1:
            assert taken(worklist, 0) == 1
    assert taken(worklist, 1) == 2, "a went to the other"
    assert taken(worklist, 1) is None


# --- the ring: figure 4 ----------------------------------------------------------------------------------------------


def test_outputs_leave_in_order_and_only_within_the_ring() -> None:
    ring = ReorderRing[str](2)
    assert (ring.next, ring.room_to) == (1, 3)
    assert ring.put(2, "b")
    assert not ring.ready
    assert not ring.put(3, "c"), "its slot may be wanted by 1"
    assert ring.put(1, "a")
    assert [ring.pop(), ring.pop()] == ["a", "b"]
    assert not ring.ready
    assert ring.put(3, "c")
    assert not ring.put(2, "b"), "it has left"
    assert ring.peek() == "c"
