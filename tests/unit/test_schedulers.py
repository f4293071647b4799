"""Schedulers: which operator an idle worker runs next, by hand."""

from collections.abc import Sequence

import pytest

from compositions.batch_settings import SchedulerSettings
from compositions.dynamic import SCHEDULER_NAMES
from compositions.settings import SettingsError
from runtime.scheduling import SchedulerError, make_scheduler
from runtime.scheduling.port import Book, Look, Queue, Visit

ONE_MS = Look(10, True, 0, 4, 0.001)


def chosen(name: str, looks: Sequence[Look], **settings: float | str) -> int | None:
    return make_scheduler(name, SchedulerSettings().overridden(settings)).choose(looks)


def waiting(*counts: int) -> list[Look]:
    """Operators of 1 ms and selectivity 1, for four workers each."""
    return [ONE_MS._replace(waiting=count, ready=count > 0) for count in counts]


def test_an_unknown_one_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SchedulerError, match="unknown scheduler 'fifo'; there are qst, lp, et, ct, kanban"):
        make_scheduler("fifo")


@pytest.mark.parametrize("name", SCHEDULER_NAMES)
def test_only_operators_with_work_and_room_for_one_more_worker_are_chosen(name: str) -> None:
    full = ONE_MS._replace(workers=1, most_workers=1)
    blocked = ONE_MS._replace(waiting=1, ready=False)
    assert chosen(name, [full, ONE_MS, blocked]) == 1
    assert chosen(name, waiting(0, 0, 0)) is None


@pytest.mark.parametrize("name", SCHEDULER_NAMES)
def test_a_turn_has_the_tuples_of_a_slice_and_one_at_least(name: str) -> None:
    scheduler = make_scheduler(name, SchedulerSettings(slice_s=0.01))
    assert scheduler.allotment(ONE_MS) == 10
    assert scheduler.allotment(ONE_MS._replace(cost_s=1.0)) == 1
    assert scheduler.allotment(ONE_MS._replace(cost_s=None)) == 1


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"slice_s": 0}, r"slice_s = 0, must be in \[0.000001, 60\] s"),
        ({"selectivity": "none"}, "selectivity = 'none', must be corrected or printed"),
        ({"depth": 1}, "unknown setting 'depth'; there are ahead, capacity, half_life"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(settings: dict[str, float], refused: str) -> None:
    with pytest.raises(SettingsError, match=refused):
        SchedulerSettings().overridden(settings)


def test_qst_fills_the_queues_from_the_front_and_passes_over_one_whose_outputs_wait() -> None:
    """Equation 1 with selectivities of 1: each of three operators has a third of the capacity behind it."""
    for counts, expected in {(50, 9, 50): 0, (50, 10, 9): 1, (50, 10, 10): 2}.items():
        assert chosen("qst", waiting(*counts), capacity=30) == expected
    assert chosen("qst", [*waiting(50, 10), ONE_MS._replace(waiting=10, ready=False)], capacity=30) is None


def test_lp_takes_the_latest_with_input_and_with_a_minimum_leaves_nothing_behind() -> None:
    assert [chosen("lp", waiting(50, 1, last)) for last in (0, 1)] == [1, 2]
    assert [chosen("lp", waiting(first, 4, 3), least_waiting=5) for first in (50, 0)] == [0, 2]


def test_et_takes_the_longest_worklist_in_time() -> None:
    slow = ONE_MS._replace(waiting=3, cost_s=0.01)
    assert chosen("et", [*waiting(20), slow]) == 1
    assert chosen("et", [*waiting(40), slow]) == 0
    assert chosen("et", [*waiting(40), slow._replace(workers=0), ONE_MS._replace(waiting=100, workers=3)]) == 0


def test_ct_takes_who_has_done_least_in_the_window() -> None:
    looks = waiting(9, 9, 9)
    spent = [look._replace(spent_s=s) for look, s in zip(looks, (0.03, 0.01, 0.02), strict=True)]
    assert chosen("ct", spent) == 1
    assert chosen("ct", [spent[0], spent[1]._replace(workers=2), spent[2]], slice_s=0.01) == 2


def test_ct_counts_tuples_and_not_time() -> None:
    """Half the time at half the cost is as much done; a tie is the later one's."""
    quick = ONE_MS._replace(cost_s=0.0005, spent_s=0.01)
    assert chosen("ct", [ONE_MS._replace(spent_s=0.02), quick]) == 1
    assert chosen("ct", [ONE_MS._replace(spent_s=0.019), quick]) == 0


def test_kanban_pulls_and_makes_nothing_ahead() -> None:
    """The last operator is at its maximal parallelism: once what its one worker takes in two slices of 2 ms waits
    there, the one before it gets nobody, and the first only as long as that one has room."""
    last = ONE_MS._replace(waiting=3, workers=1, most_workers=1)
    assert chosen("kanban", [*waiting(50, 50), last], slice_s=0.002, ahead=2) == 1
    last = last._replace(waiting=4)
    assert chosen("lp", [*waiting(50, 50), last]) == 1
    assert chosen("kanban", [*waiting(50, 15), last], slice_s=0.002, ahead=2) == 0
    assert chosen("kanban", [*waiting(50, 16), last], slice_s=0.002, ahead=2) is None


def test_what_is_measured_is_in_the_looks_as_far_as_it_lies_in_their_window() -> None:
    queues, nothing = [Queue(5, True, 1, 4), Queue(0, False, 0, 1)], Look(0, False, 0, 1)
    book = Book(2, SchedulerSettings(window_s=1.0))
    assert book.looks(0.0, queues) == [Look(5, True, 1, 4), nothing]
    book.note(0, Visit(began_s=0.0, ended_s=0.25, tuples=100, outputs=50, busy_s=0.2))
    assert book.looks(0.3, queues) == [Look(5, True, 1, 4, 0.002, 0.5, 0.25), nothing]
    book.note(1, Visit(0.5, 1.2, 10, 10, 0.7))
    assert book.looks(1.3, queues)[1].spent_s == pytest.approx(0.2)
    assert book.looks(2.0, queues)[1].spent_s == 0.0
