"""Enumerate all compositions of an app within a limit of workers, for ``generate`` of a compositions file."""

from collections.abc import Iterator, Sequence
from math import ceil

from compositions.errors import CompositionError, Fault
from compositions.model import Composition, Group, Pattern, Stage, all_sequential
from compositions.notation import short_notation
from compositions.rules import MAX_COMPOSITIONS, count_fault, most_replicas

MAX_GENERATED = MAX_COMPOSITIONS
MAX_OWN = 1_000
"""Largest list for an app without a compositions file: few enough to read, and to compare at each tick."""

_Tail = tuple[int, tuple[Group, ...]]
"""Number of workers, and groups, of an arrangement of the last stages of an app."""


def generate(stages: Sequence[Stage], *, max_workers: int, replicas: Sequence[int]) -> Iterator[Composition]:
    """Return all partitions of ``stages`` into groups of adjacent stages, with each number of ``replicas`` per group.

    Cheapest first: fewest workers, then fewest groups. Shapes are distinct, names are short notations. A group of one
    worker is Seq; a group that workers cannot share is Seq, whatever ``replicas`` offers.

    Raises: CompositionError if there are more than 10,000, or none within ``max_workers``, or replicas below 1.
    """
    offered = sorted(set(replicas))
    for problem in filter(None, (count_fault("replicas", count) for count in offered)):
        raise _refusal(problem)
    tails = _arrange(stages, max_workers, offered) if stages else []
    if not tails:
        raise _refusal(f"with replicas {offered}, every composition has more than {max_workers} workers")
    tails.sort(key=lambda tail: (tail[0], len(tail[1])))
    return (Composition(short_notation(Composition("", groups)), groups) for _, groups in tails)


def own_list(stages: Sequence[Stage], cores: float) -> tuple[Composition, ...]:
    """Return the compositions of an app without a compositions file: all with at most twice as many workers as cores.

    Twice, because a stage that waits takes a worker and no core. If that would be more than 1,000, fewer numbers of
    replicas are offered: all, then powers of two, then 1 and 2, then 1. ``sequential``, with one worker per stage, is
    always among them.
    """
    most = max(ceil(2 * cores), len(stages))
    powers = [2**exponent for exponent in range(most.bit_length()) if 2**exponent <= most]
    plain = all_sequential(stages)
    for replicas in (range(1, most + 1), powers, powers[:2], powers[:1]):
        found = _within(stages, most, replicas)
        if found:
            return tuple(plain if each.shape == plain.shape else each for each in found)
    return (plain,)


def _within(stages: Sequence[Stage], most: int, replicas: Sequence[int]) -> list[Composition]:
    """Return the compositions within ``most`` workers; an empty list if there are too many."""
    try:
        found = list(generate(stages, max_workers=most, replicas=replicas))
    except CompositionError:
        return []
    return found if len(found) <= MAX_OWN else []


def _arrange(stages: Sequence[Stage], max_workers: int, replicas: Sequence[int]) -> list[_Tail]:
    """Return the arrangements of all stages, built from those of the last stage, of the last two, and so on.

    An arrangement is kept only if the stages before it, merged into one group, still fit. So every kept one is the end
    of at least one composition, and a list that exceeds the limit proves that there are too many.
    """
    arranged: list[list[_Tail]] = [[(0, ())]]
    for first in reversed(range(len(stages))):
        before = min(_choices(stages[:first], replicas), default=0) if first else 0
        tails = sorted(_extend(stages, first, arranged, max_workers - before, replicas), key=lambda tail: tail[0])
        arranged.insert(0, tails)
    return arranged[0]


def _extend(
    stages: Sequence[Stage], first: int, arranged: Sequence[list[_Tail]], budget: int, replicas: Sequence[int]
) -> list[_Tail]:
    """Return arrangements of ``stages[first:]`` within ``budget`` workers; ``arranged[i]``: from first + 1 + i on."""
    found: list[_Tail] = []
    for end in range(first + 1, len(stages) + 1):
        names = tuple(stage.name for stage in stages[first:end])
        for count in _choices(stages[first:end], replicas):
            fitting = len(found)
            group = Group(names, Pattern.SEQ if count == 1 else Pattern.PAR, count)
            for workers, groups in arranged[end - first - 1]:
                if workers + count > budget:
                    break
                found.append((workers + count, (group, *groups)))
                refuse_too_many(len(found))
            if len(found) == fitting:
                break
    return found


def _choices(stages: Sequence[Stage], replicas: Sequence[int]) -> Sequence[int]:
    most = most_replicas(stages)
    return [count for count in replicas if count <= most] or (1,) if most > 1 else (1,)


def refuse_too_many(found: int) -> None:
    """Check the number of compositions. Raises: CompositionError if it is above the limit."""
    if found > MAX_GENERATED:
        many = f"more than {MAX_GENERATED:,} compositions would be generated"
        raise _refusal(f"{many}; lower max_workers or offer fewer replicas")


def _refusal(message: str) -> CompositionError:
    return CompositionError([Fault("", message)])
