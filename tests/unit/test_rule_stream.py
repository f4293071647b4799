"""The rule's model of the stream: stage times, futures, news and the ceiling of the throughput."""

import numpy as np
import pytest

from control.rule.ceiling import Ceiling
from control.rule.news import News
from control.rule.settings import RuleSettings
from control.rule.stream import Futures, Stream

TURN_S = 0.25


def fed(rates_per_s: list[float], each_s: tuple[float, ...] = (0.1, 0.3), seed: int = 1) -> Stream:
    """A stream with Poisson arrivals at these rates, one a second, of items that take about ``each_s``."""
    rng, stream = np.random.default_rng(seed), Stream([1] * len(each_s), RuleSettings())
    for rate in rates_per_s:
        for _ in range(4):
            came = float(rng.poisson(rate * TURN_S))
            stream.add(TURN_S, came, np.full(len(each_s), came), came * np.array(each_s))
    return stream


@pytest.mark.parametrize(
    ("rates", "per_s"), [([10.0] * 12, 10.0), ([10.0] * 300, 10.0), ([4.0] * 200 + [16.0] * 6, 16.0)]
)
def test_the_futures_of_a_stream_have_its_rate_after_a_jump_and_its_costs(rates: list[float], per_s: float) -> None:
    futures = fed(rates).futures(5.0)
    assert futures.items.mean() / futures.step_s == pytest.approx(per_s, rel=0.3)
    assert futures.each_s.mean(axis=(0, 1)) == pytest.approx([0.1, 0.3], rel=0.1)


def test_items_that_are_alike_are_believed_to_be_so_when_many_are_known() -> None:
    few, many = fed([4.0] * 5), fed([4.0] * 1000)
    assert few.cv == pytest.approx(0.1, rel=0.2), "twenty may be alike by chance"
    assert many.cv < 0.03


def one_after_the_other(stream: Stream, times_s: list[float]) -> Stream:
    for each_s in times_s:
        stream.add(TURN_S, 1.0, np.array([1.0, 1.0]), np.array([0.1, each_s]))
    return stream


def test_two_items_tell_that_a_stage_takes_longer_or_less_long() -> None:
    stream = one_after_the_other(fed([4.0] * 60), [1.8, 1.8])
    assert stream.each_s.tolist() == pytest.approx([0.1, 1.8])
    assert one_after_the_other(stream, [0.3, 0.3, 0.3]).each_s.tolist() == pytest.approx([0.1, 0.3], rel=0.1)


def test_where_times_have_a_long_tail_two_items_tell_nothing() -> None:
    times_s = (0.3 * np.random.default_rng(1).lognormal(0.0, 1.2, 300)).tolist()
    before_s = one_after_the_other(fed([4.0]), times_s).each_s[1]
    after_s = one_after_the_other(fed([4.0]), [*times_s, 6 * before_s, 6 * before_s]).each_s[1]
    assert after_s < 2 * before_s


def test_what_followed_a_rise_before_is_expected_of_the_next() -> None:
    wave = [4.0] * 30 + [6.0, 9.0, 13.0, 18.0] + [20.0] * 30
    futures = fed(wave * 8 + wave[:33], seed=3).futures(5.0)
    assert futures.items.mean() / futures.step_s > 15.0


def test_what_comes_at_once_every_two_seconds_will_go_on_to() -> None:
    stream = Stream([1], RuleSettings())
    for turn in range(800):
        came = 20.0 if turn % 8 == 0 else 0.0
        stream.add(TURN_S, came, np.array([came]), np.array([0.1 * came]))
    short, long = (stream.stationary(TURN_S, steps).items for steps in (16, 240))
    assert set(short.sum(axis=1)) == {40.0}, "any four seconds have two bundles"
    assert long.sum(axis=1) == pytest.approx(600.0, rel=0.1)


def test_an_announced_load_is_believed() -> None:
    futures = fed([5.0] * 60).futures(10.0).announced(((4.0, 100.0, 50.0),))
    rates = futures.items.mean(axis=0) / futures.step_s
    assert rates[:6].mean() == pytest.approx(5.0, rel=0.4)
    assert rates[10:].mean() == pytest.approx(50.0, rel=0.3)


def test_in_the_long_run_a_stage_takes_its_mean_since_the_last_change() -> None:
    rng, stream = np.random.default_rng(2), Stream([1], RuleSettings())
    for _ in range(1200):
        came = float(rng.poisson(1.0))
        busy_s = 0.3 * rng.gamma(2.0, 0.5, int(came)).sum()
        stream.add(TURN_S, came, np.array([came]), np.array([busy_s]))
    assert stream.stationary(TURN_S, 240).mean_s == pytest.approx([0.3], rel=0.05)


def test_a_rate_that_is_a_goal_limits_the_mean_of_a_future_and_keeps_its_bursts() -> None:
    bursts = Futures(0.25, np.array([[2.0, 0.0, 2.0, 0.0], [4.0, 0.0, 4.0, 0.0]]), np.ones((2, 4, 1)), np.ones(1))
    assert bursts.at_most(4.0).items.tolist() == [[2.0, 0.0, 2.0, 0.0], [2.0, 0.0, 2.0, 0.0]]


def looked_at(counts: list[float], work_s: float = 0.4) -> News:
    """What a test says of these numbers of items a turn."""
    news, came, worked = News(), np.zeros(len(counts) + 1), np.zeros((2, len(counts) + 1))
    for turn, count in enumerate(counts, 1):
        came[turn] = came[turn - 1] + count
        worked[:, turn] = worked[:, turn - 1] + (count, count * work_s)
        news.look(turn, came, worked)
    return news


def test_chance_is_no_news_and_a_change_is_within_seconds() -> None:
    rng = np.random.default_rng(3)
    calm = rng.poisson(2.5, 14_400).astype(float).tolist()
    assert looked_at(calm).since == 0
    assert not looked_at(calm).moving
    for factor in (0.5, 1.6):
        changed = [*calm[:2000], *rng.poisson(2.5 * factor, 60).astype(float).tolist()]
        assert 1990 <= looked_at(changed).since <= 2060
    assert looked_at([3.0] * 400 + [4.0] * 16).since >= 395, "a camera sends a frame more"
    waves = [float(rng.poisson(5 + 4 * np.sin(turn / 100))) for turn in range(4000)]
    assert looked_at(waves).moving


def fed_ceiling(rates: dict[int, float], ceiling: Ceiling | None = None, begin_s: float = 0.0) -> Ceiling:
    """What is learned where so many workers, one after the other for ten seconds, do so many items a second."""
    ceiling, at_s = ceiling or Ceiling(), begin_s
    for workers, per_s in rates.items():
        for _ in range(40):
            at_s += TURN_S
            ceiling.look(at_s, TURN_S, workers, per_s * TURN_S, full=True)
    return ceiling


def test_where_more_workers_bring_nothing_a_ceiling_is_known_for_a_while() -> None:
    ceiling = fed_ceiling({4: 14.0, 8: 14.2})
    assert ceiling.per_s(20.0) == pytest.approx(14.2, rel=0.05)
    assert ceiling.per_s(90.0) == np.inf
    again = fed_ceiling({4: 14.0, 8: 14.2}, ceiling, 100.0)
    assert again.per_s(200.0) == pytest.approx(14.2, rel=0.05)
    for rates in ({4: 14.0, 8: 26.0}, {8: 26.0, 4: 14.0}):
        assert fed_ceiling(rates).per_s(20.0) == np.inf, "more workers bring more"


def test_what_comes_out_where_workers_lack_items_tells_of_no_ceiling() -> None:
    ceiling = Ceiling()
    for turn in range(400):
        ceiling.look(turn * TURN_S, TURN_S, 4 if turn < 200 else 8, 14.0 * TURN_S, full=turn % 2 == 0)
    assert ceiling.per_s(100.0) == np.inf


@pytest.mark.parametrize("seed", range(20))
def test_chance_is_no_ceiling(seed: int) -> None:
    rng, ceiling = np.random.default_rng(seed), Ceiling()
    for turn in range(400):
        workers = 4 + turn // 50
        ceiling.look(turn * TURN_S, TURN_S, workers, float(rng.poisson(3.0 * workers * TURN_S)), full=True)
        assert ceiling.per_s(turn * TURN_S) == np.inf
