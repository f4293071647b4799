"""Loads and costs of the gym: rates are met, seeds differ, recordings stay as they were, and bad files are told."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind
from lab.gym.apps import read_app
from lab.gym.drawn import QUEUED_ITEMS
from lab.gym.loads import LOADS, read_trace
from lab.gym.record import main, record
from lab.gym.tables import read_table
from recompose import pipeline

HOUR_S = 3600.0
EXACT_RATE = ("azure", "mooncake", "paced", "bundles")
each_load = pytest.mark.parametrize("name", LOADS)


@each_load
@settings(max_examples=25, deadline=None)
@given(st.floats(20, HOUR_S), st.floats(0.5, 20), st.integers(0, 2**32))
def test_times_rise_within_the_run_at_the_rate(name: str, duration_s: float, rate_per_s: float, seed: int) -> None:
    due_s = LOADS[name].times(duration_s, rate_per_s, seed)
    wanted = duration_s * rate_per_s
    assert due_s.dtype == np.float64
    assert (np.diff(due_s) >= 0).all()
    assert due_s.size == 0 or (due_s[0] >= 0 and due_s[-1] < duration_s)
    wanted = max(wanted, QUEUED_ITEMS) if name == "queued" else wanted
    allowed = 20 if name in EXACT_RATE else 6 * wanted**0.5 + 6
    assert abs(due_s.size - wanted) <= allowed


@each_load
def test_the_same_seed_gives_the_same_times_and_another_seed_others(name: str) -> None:
    load = LOADS[name]
    once, again, other = (load.times(600.0, 15.0, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)


def test_crowds_are_announced_where_they_come_with_their_rate() -> None:
    load = LOADS["crowds_announced"]
    due_s = load.times(HOUR_S, 20.0, 4)
    spans = load.announced(HOUR_S, 20.0, 4)
    assert spans
    for span in spans:
        there = np.count_nonzero((due_s >= span.from_s) & (due_s < span.until_s))
        wanted = span.rate_per_s * (span.until_s - span.from_s)
        assert abs(there - wanted) < 5 * wanted**0.5 + 5
    assert all(before.until_s <= after.from_s for before, after in pairwise(spans))
    assert not LOADS["crowds"].announced(HOUR_S, 20.0, 4)


# --- a user's recording -----------------------------------------------------------------------------------------------


def written(folder: Path, text: str, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_users_times_are_played_exactly_or_scaled(tmp_path: Path) -> None:
    path = written(tmp_path, "100\n101.5\n\n103\n110\n", "times.txt")
    np.testing.assert_allclose(read_trace(path, speed=1.0).times(60.0, 99.0, 1), [0, 1.5, 3, 10])
    np.testing.assert_allclose(read_trace(path, speed=1.0).times(5.0, 99.0, 1), [0, 1.5, 3])
    np.testing.assert_allclose(read_trace(path, speed=10.0).times(60.0, 99.0, 1), [0, 0.15, 0.3, 1])
    assert read_trace(path).times(60.0, 5.0, 1).size == 300
    assert read_trace(path).sizes is None


def test_a_users_counts_are_spread_over_their_steps(tmp_path: Path) -> None:
    path = written(tmp_path, "seconds,requests\n0,2\n10,0\n20,4\n")
    np.testing.assert_allclose(read_trace(path, speed=1.0).times(60.0, 1.0, 1), [2.5, 7.5, 21.25, 23.75, 26.25, 28.75])
    scaled_s = read_trace(path).times(300.0, 10.0, 1)
    thirds = np.histogram(scaled_s, [0, 100, 200, 300])[0]
    assert thirds[1] == 0
    assert thirds[2] / thirds[0] == pytest.approx(2, rel=0.2)


BAD_TRACES = {
    "empty": ("a.txt", "", "has no arrivals"),
    "words": ("a.txt", "1\nsoon\n", "line 2 of trace"),
    "no header": ("a.csv", "1,2\n3,4\n", "has no header"),
    "two times": ("a.csv", "seconds,date\n3,4\n", "exactly one must be named"),
    "twice": ("a.csv", "seconds,a,a\n3,4,5\n", "two columns 'a'"),
    "no number": ("a.csv", "seconds,a\n3,x\n", "'x' in column 'a'"),
    "one step": ("a.csv", "seconds,count\n0,4\n", "at least two steps"),
    "half an item": ("a.csv", "seconds,count\n0,4\n1,0.5\n", "whole numbers"),
}


# --- a user's app -----------------------------------------------------------------------------------------------------

OWN = """# app: mine
# bound_ms: 500
# cores: 4
# workers: 6
# start_s: 10
# hop_ms: 3
# wait: yes
# stage ask: servers 4, price 3
# stage tell: stateful, bandwidth 0.25
ask,ask.wall,tell
1000,51000,2000
3000,2000,4000
"""


def test_a_users_app_is_read_as_it_is_described(tmp_path: Path) -> None:
    app = read_app(written(tmp_path, OWN))
    assert (app.name, app.bound_s) == ("own", 0.5)
    ask, tell = app.stages
    assert (ask.name, ask.servers, ask.price, ask.stateful) == ("ask", 4, 3, False)
    assert (tell.name, tell.servers, tell.bandwidth, tell.stateful) == ("tell", None, 0.25, True)
    machine = app.machine
    assert (machine.cores, machine.most_workers, machine.start_s, machine.hop_s) == (4, 6, 10, 0.003)
    cpu_s, wait_s = app.costs(4, 1, None, np.arange(4.0))
    assert {tuple(row) for row in cpu_s.round(6)} == {(0.001, 0.002), (0.003, 0.004)}
    assert set(wait_s[:, 0].round(6)) == {0.05, 0.0}
    assert not wait_s[:, 1].any()


BAD_APPS = {
    "cores": ("# cores: many\na\n1\n", "cores: 'many'; must be a whole number from 1 on"),
    "unit": ("# unit: ms\na\n1\n", "unit: 'ms'; must be us or s"),
    "unknown key": ("# bound_s: 3\na\n1\n", "comment 'bound_s', which is unknown"),
    "unknown trait": ("# stage a: fast\na\n1\n", "must be stateful, servers NUMBER"),
    "negative": ("a\n-1\n", "costs from 0 on"),
    "walls only": ("a.wall\n1\n", "must have a stage"),
}
BAD = [
    *(pytest.param(read_trace, *row, id=f"trace: {each}") for each, row in BAD_TRACES.items()),
    *(pytest.param(read_app, "own.csv", *row, id=f"app: {each}") for each, row in BAD_APPS.items()),
]


@pytest.mark.parametrize(("read", "name", "text", "sentence"), BAD)
def test_a_bad_file_is_one_sentence(read: Any, name: str, text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(RecomposeError) as caught:
        read(written(tmp_path, text, name))
    assert sentence in str(caught.value)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_stages_with_a_state_are_not_recorded() -> None:
    counting = pipeline((Stage("check", StageKind.STATEFUL), lambda value, state: (value, state)), name="numbers")
    with pytest.raises(RecomposeError, match="stage 'check' of app 'numbers' keeps a state"):
        record(counting(), None, 3)


def test_the_command_records_a_built_in_app(tmp_path: Path) -> None:
    text = written(tmp_path, "some text\n" * 300, "text.txt")
    out = tmp_path / "costs.csv"
    main(["bzip2", "--data", str(text), "--out", str(out), "--items", "5", "-o", "block_bytes=100"])
    table = read_table(out)
    assert (table.columns, len(table.values)) == (("compress", "compress.wall"), 5)
    comments = dict(table.comments)
    assert comments["app"] == "bzip2 -o block_bytes=100"
    assert comments["data"] == "text.txt, 25 inputs, 0 failed"
    assert {"machine", "recorded"} <= comments.keys()
    assert read_app(out).stages[0].name == "compress"
