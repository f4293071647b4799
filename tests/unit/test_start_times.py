"""How long workers of each class take to start, and which are kept because they would have to load again."""

from collections import Counter

from control.strategies.start_times import StartTimes

LIGHT, MODEL = (), ("model",)


def known(model_s: float = 20.0, light_s: float = 2.0) -> StartTimes:
    """Times of both classes, measured one after the other."""
    times = StartTimes()
    times.ask(0.0, Counter({LIGHT: 1, MODEL: 2}), Counter({LIGHT: 1, MODEL: 1}), 2)
    times.note(model_s, 3)
    times.ask(30.0, Counter({LIGHT: 2, MODEL: 2}), Counter({LIGHT: 1, MODEL: 2}), 3)
    times.note(30.0 + light_s, 4)
    return times


def test_the_slowest_of_the_classes_in_question_counts() -> None:
    assert known().slowest_s([LIGHT, MODEL], 1.5) == 20.0
    assert known().slowest_s([LIGHT], 1.5) == 2.0
    assert StartTimes().slowest_s([LIGHT], 1.5) == 1.5


def test_the_start_of_an_app_counts_where_its_workers_load_something() -> None:
    light, heavy = StartTimes(), StartTimes()
    light.begin(0.0, Counter({LIGHT: 3}), 0)
    heavy.begin(0.0, Counter({LIGHT: 2, MODEL: 1}), 2)
    for times in (light, heavy):
        times.note(21.0, 3)
    assert light.slowest_s([LIGHT], 1.5) == 1.5
    assert heavy.slowest_s([MODEL], 1.5) == 21.0


def test_a_loaded_worker_is_given_back_when_it_was_not_needed_for_as_long_as_its_load_takes() -> None:
    times, present, fewer = known(), Counter({LIGHT: 2, MODEL: 3}), Counter({LIGHT: 2, MODEL: 1})
    assert times.keeps(100.0, present, present) is None
    assert times.keeps(110.0, fewer, present) == "workers that have loaded model are kept, as it takes 20 s"
    assert times.keeps(119.0, fewer, present) is not None
    assert times.keeps(121.0, fewer, present) is None, "20 s after it was needed last"


def test_light_workers_are_given_back_at_once_and_growth_waits_for_nothing() -> None:
    times, present = known(), Counter({LIGHT: 4, MODEL: 3})
    assert times.keeps(100.0, present, present) is None
    assert times.keeps(101.0, Counter({LIGHT: 1, MODEL: 3}), present) is None
    assert times.keeps(102.0, Counter({LIGHT: 7, MODEL: 2}), present) is None
