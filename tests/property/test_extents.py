"""Free parts of a range, against a set of the bytes that are taken."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.arena.arena import Extents

SIZE = 40
STEPS = st.lists(st.tuples(st.booleans(), st.integers(1, 12), st.integers(0, 100)), max_size=60)


@given(STEPS)
def test_no_byte_is_taken_twice_and_none_is_lost(steps: list[tuple[bool, int, int]]) -> None:
    extents, held = Extents(SIZE), []
    for taking, size, which in steps:
        if taking:
            start = extents.take(size)
            taken = {byte for at, length in held for byte in range(at, at + length)}
            fits = [at for at in range(SIZE - size + 1) if taken.isdisjoint(range(at, at + size))]
            assert start == (min(fits) if fits else None)
            if start is not None:
                held.append((start, size))
        elif held:
            at, length = held.pop(which % len(held))
            extents.give(at, length)
        assert extents.used_bytes == sum(length for _, length in held)
        assert extents.used_to == max((at + length for at, length in held), default=0)
