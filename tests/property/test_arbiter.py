"""Laws of the arbiter: never more than there is, floors kept, more for nobody's loss, and no flapping."""

import itertools
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from control.arbitration.arbiter import Arbiter, Claim, divide, worth
from tests.support.examples import examples

REACH = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(tuple)
PRIORITY = st.sampled_from([0.5, 1.0, 2.0, 5.0])
UNITS = st.integers(0, 24)
CLAIMS = st.lists(st.tuples(REACH, PRIORITY, st.integers(0, 4)), max_size=5).map(
    lambda rows: [Claim(f"app{number}", *row) for number, row in enumerate(rows)]
)


@given(CLAIMS, UNITS)
def test_never_more_than_there_is_and_floors_first(claims: list[Claim], units: int) -> None:
    shares = divide(claims, units)
    floors = sum(claim.floor for claim in claims)
    assert sum(shares.values()) <= units
    assert all(shares[claim.app] >= claim.floor for claim in claims) or floors > units
    assert sum(shares.values()) == units or floors <= units


@given(CLAIMS, UNITS)
def test_a_unit_more_takes_nothing_from_anybody(claims: list[Claim], units: int) -> None:
    less, more = divide(claims, units), divide(claims, units + 1)
    if sum(claim.floor for claim in claims) <= units:
        assert all(more[app] >= has for app, has in less.items())


@given(CLAIMS.filter(bool), UNITS, st.floats(1, 10))
def test_a_higher_priority_is_no_disadvantage(claims: list[Claim], units: int, times: float) -> None:
    raised = [replace(claims[0], priority=times * claims[0].priority), *claims[1:]]
    assert divide(raised, units)[claims[0].app] >= divide(claims, units)[claims[0].app]


@given(CLAIMS, UNITS)
def test_where_all_gains_fall_no_other_division_is_worth_more(claims: list[Claim], units: int) -> None:
    falling = [replace(claim, reach=_falling(claim.reach), floor=0) for claim in claims[:3]]
    found = worth(falling, divide(falling, units))
    assert found >= max(worth(falling, each) for each in _divisions(falling, units)) - 1e-6


@examples(25)
@given(st.integers(2, 5), st.integers(4, 16), st.integers(0, 10_000))
def test_noise_moves_nothing_after_a_while(apps: int, units: int, seed: int) -> None:
    random = Random(seed)
    arbiter, needs, changes, before = Arbiter(), [random.randint(1, units) for _ in range(apps)], 0, None
    for second in range(700):
        claims = [Claim(f"app{n}", _reaching(need * random.uniform(0.9, 1.1), units)) for n, need in enumerate(needs)]
        shares = arbiter.share(float(second), claims, units)
        assert sum(shares.values()) == units
        changes += second >= 300 and shares != before
        before = shares
    assert changes <= 400 / 8, "at most one in eight seconds where nothing but noise of a tenth changes"


def test_what_is_needed_moves_at_once_and_what_is_not_stays() -> None:
    arbiter = Arbiter()
    low, high = _reaching(2, 8), _reaching(6, 8)
    assert arbiter.share(0.0, [Claim("a", low), Claim("b", high)], 8) == {"a": 2, "b": 6}
    assert arbiter.share(1.0, [Claim("a", low), Claim("b", low)], 8) == {"a": 2, "b": 6}, "nobody else needs it"
    assert arbiter.share(2.0, [Claim("a", high), Claim("b", low)], 8) == {"a": 6, "b": 2}


def test_a_gift_that_was_asked_back_is_made_more_slowly() -> None:
    arbiter, given_s = Arbiter(), []
    for second in range(300):
        needs = 6 if second % 20 < 10 else 2  # the first needs for ten seconds what the second could use all the time
        claims = [Claim("a", _reaching(needs, 8), 2.0), Claim("b", _reaching(6, 8))]
        if arbiter.share(float(second), claims, 8)["a"] < 6:
            given_s.append(second)
    assert given_s
    assert max(given_s) < 100, "after a few mistakes it keeps what it needs every other moment"


def _reaching(need: float, most: int) -> tuple[float, ...]:
    return tuple(min(1.0, units / need) for units in range(most + 1))


def _falling(reach: tuple[float, ...]) -> tuple[float, ...]:
    """The same gains, the largest first."""
    best = [max(reach[: n + 1]) for n in range(len(reach))]
    gains = sorted((later - earlier for earlier, later in itertools.pairwise(best)), reverse=True)
    return tuple(best[0] + sum(gains[:n]) for n in range(len(reach)))


def _divisions(claims: list[Claim], units: int) -> list[dict[str, int]]:
    """All of them."""
    if not claims:
        return [{}]
    first, rest = claims[0], claims[1:]
    most = min(units, len(first.reach))
    return [{first.app: has, **others} for has in range(most + 1) for others in _divisions(rest, units - has)]
