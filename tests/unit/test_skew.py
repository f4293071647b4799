"""Skewed keys: partitions go from who has too much of the work, as few as will do, and never for little."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lab.papers.prasaad.figures import normal_bounds
from runtime.dispatch.bundle import Bundle
from runtime.dispatch.keyed.partitions import COUNTED, GAIN, UNEVEN, Loads, Partitions, moves
from runtime.dispatch.keyed.split import Assembly, marked
from runtime.dispatch.keys import Routes


def most(owned: dict[str, list[int]], loads: list[int], moved: dict[int, str]) -> float:
    """What the worker with the most has, of the mean."""
    sums = dict.fromkeys(owned, 0)
    for worker, mine in owned.items():
        for each in mine:
            sums[moved.get(each, worker)] += loads[each]
    return max(sums.values()) * len(sums) / sum(loads)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=64), st.integers(2, 8))
def test_what_moves_makes_it_more_even_or_nothing_does(loads: list[int], workers: int) -> None:
    loads[0] += 1
    owned = {f"w{number}": list(range(number, len(loads), workers)) for number in range(workers)}
    moved = moves(owned, loads)
    before, after = most(owned, loads, {}), most(owned, loads, moved)
    assert moved == {} or (before > UNEVEN and after <= before - GAIN)
    assert all(loads[each] and each not in owned[worker] for each, worker in moved.items())
    heaviest = max(loads) * workers / sum(loads)
    # of who has several, each is at least as much as that worker has more than the one with the least, who has less
    # than the mean: but for the tenth that is let be, the excess is one of them, and half of what it has at most
    assert before <= UNEVEN or moved == {} or after <= max(1 + GAIN, heaviest, min(2, 1 + heaviest)) + 1e-9


def test_even_keys_move_nothing_and_a_key_with_most_of_the_work_is_left_alone() -> None:
    owned = {"a": [0, 2], "b": [1, 3]}
    assert moves(owned, [11, 10, 10, 10]) == {}
    assert moves(owned, [90, 0, 1, 0]) == {}, "the other one is not worth a move"
    assert moves(owned, [60, 2, 20, 2]) == {2: "b"}


def reached(sigma: float, partitions: int, workers: int = 16) -> float:
    """Of what that many workers could do with keys from N(0, sigma), however shared: what they do once partitions have
    moved; a partition at no more than one of them."""
    below = (0.0, *normal_bounds(sigma, partitions))
    shares = [high - low for low, high in pairwise(below)]
    loads = [round(1e6 * share) for share in shares]
    owned = {f"w{number}": list(range(number, partitions, workers)) for number in range(workers)}
    return min(workers, 1 / max(shares)) ** -1 * workers / most(owned, loads, moves(owned, loads))


def test_where_queues_a_worker_halve_whole_partitions_reach_the_bound() -> None:
    """Prasaad et al., figure 9: at σ = 0.4 a range of keys for each of 16 workers gives half of what even keys do."""
    ranges = (0.0, *normal_bounds(0.4, 16))
    assert 0.45 < 1 / max(high - low for low, high in pairwise(ranges)) / 16 < 0.55
    assert reached(0.4, 100) > 0.95
    assert all(reached(sigma, 256) > 0.95 for sigma in (0.4, 0.6, 1.0, 3.0))
    assert 0.89 < reached(3.0, 100) < 0.9, "7 of 100 even partitions are at one of 16 workers at least"


def enter(keys: Partitions, *partitions: int) -> None:
    count = len(partitions)
    assembly = Assembly(Bundle(0, (0.0,) * count, None), Routes(bytes(partitions)))
    keys.enter(assembly, None)  # type: ignore[arg-type]
    keys.leave(assembly)


def test_partitions_of_a_stage_move_once_enough_values_have_shown_where_the_work_is() -> None:
    keys = Partitions(4)
    keys.share(["a", "b"])
    of_a = [each for each in range(4) if keys.owners[each] == "a"]
    for _ in range(2 * COUNTED - 1):
        enter(keys, *of_a)
    keys.share(["a", "b"])
    assert [each for each in range(4) if keys.owners[each] == "a"] == of_a, "too few to tell"
    enter(keys, *of_a)
    keys.share(["a", "b"])
    assert sorted(keys.owners[each] for each in of_a) == ["a", "b"]
    assert keys.owned["a"] & keys.owned["b"] == 0
    assert keys.owned["a"] | keys.owned["b"] == marked(range(4))


def test_one_worker_counts_nothing_and_older_values_count_for_half() -> None:
    keys = Partitions(2)
    keys.share(["a"])
    enter(keys, 0, 1, 1)
    assert keys.loads.values == [0, 0]
    loads = Loads(2)
    loads.note(b"\0\1\1\1")
    assert (loads.look(), loads.values, loads.counted) == ([1, 3], [0, 1], 0)
