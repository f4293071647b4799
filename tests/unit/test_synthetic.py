"""The synthetic app costs what it says, and its results show whatever happened to a stream."""

import statistics
import subprocess
import sys
import time
from itertools import islice

import pytest

from apps.registry import AppRefused, create
from apps.synthetic import Synthetic
from apps.synthetic.app import Costs, SyntheticOptions
from lab.simulation.synthetic_checks import verify

OPTIONS = SyntheticOptions(total_ms=0, items=20, payload_bytes=200)


def make(**options):
    return create("synthetic", {"total_ms": 0, **options})


def through(app, work):
    for stage in app.stages:
        work = getattr(app, stage.name)(work)
    return work


def costs_ms(item=0, **options):
    made = SyntheticOptions(**options)
    return [1000 * Costs(made).of(item, stage) for stage in range(len(made.stage_weights))]


@pytest.mark.parametrize(
    ("options", "expected_ms"),
    [
        ({}, [8, 8, 8]),
        ({"weights": "1:3:2"}, [4, 12, 8]),
        ({"weights": "1:3:2:6", "total_ms": 120}, [10, 30, 20, 60]),
        ({"drift": 3.0, "items": 101, "item": 100}, [24, 24, 24]),
        ({"phases": "10=2,20=1:3:0.5", "item": 9}, [8, 8, 8]),
        ({"phases": "10=2,20=1:3:0.5", "item": 10}, [16, 16, 16]),
        ({"phases": "10=2, 20=1:3:0.5", "item": 25}, [8, 24, 4]),
    ],
)
def test_cost_of_a_stage(options, expected_ms):
    assert costs_ms(**options) == pytest.approx(expected_ms)


@pytest.mark.parametrize("distribution", ["lognormal", "pareto"])
def test_distributions_have_the_mean_and_spread_they_are_asked_for(distribution):
    costs = Costs(SyntheticOptions(weights="1", total_ms=1000, distribution=distribution, cv=0.3, seed=1))
    drawn = [costs.of(item, 0) for item in range(20_000)]
    assert statistics.fmean(drawn) == pytest.approx(1.0, rel=0.02)
    assert statistics.pstdev(drawn) == pytest.approx(0.3, rel=0.15)


def test_costs_are_the_same_in_every_process_and_differ_by_seed():
    options = {"distribution": "lognormal", "seed": 7}
    script = (
        "from apps.synthetic.app import Costs; from apps.synthetic.app import SyntheticOptions as O\n"
        f"print([Costs(O(**{options!r})).of(3, k) * 1000 for k in range(3)])"
    )
    there = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert there.strip() == str(costs_ms(item=3, **options))
    assert costs_ms(item=3, distribution="lognormal", seed=8) != costs_ms(item=3, **options)


def test_busy_stages_take_cpu_time_and_waiting_ones_wall_time():
    for compute, cpu_s in {"cpu": pytest.approx(0.030, rel=0.05), "wait": pytest.approx(0.0, abs=0.01)}.items():
        app = make(total_ms=30, compute=compute)
        work = next(app.items(None))
        began_s, began_cpu_s = time.perf_counter(), time.thread_time()
        through(app, work)
        assert time.thread_time() - began_cpu_s == cpu_s
        assert time.perf_counter() - began_s >= 0.029


def test_items_and_pushed_items_are_the_same():
    app = make(items=5, payload_bytes=1000)
    items = list(app.items(None))
    assert [work.item for work in items] == [0, 1, 2, 3, 4]
    assert items[3].payload.nbytes == 1000
    assert app.encode_result(through(app, app.from_json(3))) == app.encode_result(through(app, items[3]))


def test_failing_item_raises_in_the_second_stage_and_only_there():
    app = make(fail_at="2,4")
    third = list(islice(app.items(None), 3))[2]
    halfway = app.f1(third)
    with pytest.raises(ValueError, match="item 2 fails, because option fail_at lists it"):
        app.f2(halfway)


def test_killing_item_kills_its_process():
    script = (
        "from apps.registry import create\n"
        "app = create('synthetic', {'total_ms': 0, 'kill_at': '1'})\n"
        "app.f2(app.from_json(0)); print('alive', flush=True); app.f2(app.from_json(1)); print('still')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (-9, "alive\n")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"weights": "1:x"}, "options.weights: '1:x' must be 1 to 64 numbers"),
        ({"phases": "5=1:2"}, "options.phases: phase '5=1:2' must be ITEM=FACTOR, or ITEM= and 3 factors"),
        ({"compute": "gpu"}, "options.compute: 'gpu' is not accepted: input should be 'cpu' or 'wait'"),
        ({"total": 24}, "options.total: unknown option; options of app 'synthetic' are weights, total_ms"),
    ],
)
def test_bad_option_is_refused_with_a_sentence(options, sentence):
    with pytest.raises(AppRefused) as refused:
        make(**options)
    assert sentence in str(refused.value)


@pytest.fixture
def results():
    app = Synthetic(OPTIONS)
    values = (app.encode_result(through(app, work)) for work in app.items(None))
    return [{"serial": serial, "value": value} for serial, value in enumerate(values)]


def test_lost_doubled_and_misordered_items_are_counted(results):
    assert verify(results[:5] + results[6:], OPTIONS).lost == 1
    assert verify(results, OPTIONS, accepted=22).lost == 2
    assert verify(results[:5] + results[4:], OPTIONS).doubled == 1
    assert verify([results[1], results[0], *results[2:]], OPTIONS).misordered == 1


@pytest.mark.parametrize("path", ["f1 f3", "f1 f2 f2 f3", "f2 f1 f3", "f1 f2", ""])
def test_skipped_repeated_or_reordered_stage_is_wrong(path):
    app = Synthetic(OPTIONS)
    work = next(app.items(None))
    for stage in path.split():
        work = getattr(app, stage)(work)
    assert verify([{"serial": 0, "value": app.encode_result(work)}], OPTIONS).wrong == 1
