"""Loads and costs of the gym: rates are met, seeds differ, recordings stay as they were, and bad files are told."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind
from lab.gym.apps import APPS, AppModel, mean_item_s, read_app, typical_costs, work_of
from lab.gym.costs import RECORDED
from lab.gym.drawn import QUEUED_ITEMS
from lab.gym.loads import LOADS, read_trace
from lab.gym.model import Floats
from lab.gym.record import WARM_UP, main, record
from lab.gym.tables import read_table

HOUR_S = 3600.0
EXACT_RATE = ("azure", "mooncake", "paced", "bundles")
each_load = pytest.mark.parametrize("name", LOADS)
each_app = pytest.mark.parametrize("name", APPS)


# --- loads ------------------------------------------------------------------------------------------------------------


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


@each_load
def test_sizes_belong_to_the_times(name: str) -> None:
    load = LOADS[name]
    if load.sizes is None:
        return
    due_s, sizes = load.times(600.0, 5.0, 1), load.sizes(600.0, 5.0, 1)
    assert sizes.shape == (due_s.size, 2)


def test_recorded_arrivals_keep_their_gaps_and_sizes_at_a_factor_of_one() -> None:
    table = read_table(RECORDED / "arrivals" / "azure_llm_code.csv")
    at_s, sizes = table.column("seconds"), table.values[:, 1:]
    length_s = at_s[-1] + at_s[-1] / (at_s.size - 1)
    azure = LOADS["azure"]
    assert azure.sizes
    due_s, played = azure.times(length_s, at_s.size / length_s, 3), azure.sizes(length_s, at_s.size / length_s, 3)
    turn = next(turn for turn in range(at_s.size) if np.array_equal(np.roll(sizes, -turn, axis=0)[:50], played[:50]))
    gaps_s = np.diff(at_s, append=length_s)
    np.testing.assert_allclose(np.diff(due_s), np.roll(gaps_s, -turn)[:-1], atol=1e-6)
    np.testing.assert_array_equal(played, np.roll(sizes, -turn, axis=0))


def test_copies_and_omissions_keep_the_bursts_of_a_recording() -> None:
    """Within one second: the variance of counts over their mean, 1 for Poisson."""
    for rate_per_s in (1.0, 10.0):
        counts = np.histogram(LOADS["azure"].times(HOUR_S, rate_per_s, 1), np.arange(0, HOUR_S + 1))[0]
        assert counts.var() / counts.mean() > 3


def test_a_day_of_the_three_week_recordings_is_an_hour() -> None:
    """A day apart the load is alike, half a day apart it is not."""
    minutes = np.histogram(LOADS["wiki"].times(4 * HOUR_S, 10.0, 1), np.arange(0, 4 * HOUR_S + 1, 60))[0]
    day, half = (np.corrcoef(minutes[lag:], minutes[:-lag])[0, 1] for lag in (60, 30))
    assert day > 0.7 > 0 > half


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


def test_after_an_outage_comes_what_was_missed() -> None:
    due_s = LOADS["outage"].times(HOUR_S, 10.0, 1)
    gaps_s = np.diff(due_s)
    outages = np.flatnonzero(gaps_s > 50)
    assert len(outages) == 3
    for index in outages:
        back_s = due_s[index + 1]
        assert np.count_nonzero((due_s >= back_s) & (due_s < back_s + 4)) > 500


def test_bundles_come_at_once() -> None:
    due_s = LOADS["bundles"].times(600.0, 5.0, 1)
    assert set(np.unique(due_s, return_counts=True)[1]) == {20}


def test_self_similar_counts_stay_rough_over_longer_times() -> None:
    """The variance of mean counts falls more slowly than Poisson's, which falls by 16 from 4 s to 64 s."""
    due_s = np.concatenate([LOADS["self_similar"].times(HOUR_S, 10.0, s) + s * HOUR_S for s in range(6)])
    means = [np.histogram(due_s, np.arange(0, 6 * HOUR_S + 1, step))[0] / step for step in (4, 64)]
    assert means[0].var() / means[1].var() < 8


# --- a user's recording -----------------------------------------------------------------------------------------------


def written(folder: Path, text: str, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_users_times_are_played_exactly_or_scaled(tmp_path: Path) -> None:
    path = written(tmp_path, "100\n101.5\n\n103\n110\n", "times.txt")
    np.testing.assert_allclose(read_trace(path, exact=True).times(60.0, 99.0, 1), [0, 1.5, 3, 10])
    np.testing.assert_allclose(read_trace(path, exact=True).times(5.0, 99.0, 1), [0, 1.5, 3])
    assert read_trace(path).times(60.0, 5.0, 1).size == 300
    assert read_trace(path).sizes is None


def test_a_users_table_has_sizes(tmp_path: Path) -> None:
    rows = "2026-01-01T00:00:00,5,7\n2026-01-01 00:00:02.5+00:00,6,8\n2026-01-01T01:00:01+01:00,1,2\n"
    load = read_trace(written(tmp_path, f"timestamp,pages,words\n{rows}"), exact=True)
    assert load.sizes
    np.testing.assert_allclose(load.times(60.0, 1.0, 1), [0, 1, 2.5])
    np.testing.assert_allclose(load.sizes(60.0, 1.0, 1), [[5, 7], [1, 2], [6, 8]])


def test_a_users_counts_are_spread_over_their_steps(tmp_path: Path) -> None:
    path = written(tmp_path, "seconds,requests\n0,2\n10,0\n20,4\n")
    np.testing.assert_allclose(read_trace(path, exact=True).times(60.0, 1.0, 1), [2.5, 7.5, 21.25, 23.75, 26.25, 28.75])
    scaled_s = read_trace(path).times(300.0, 10.0, 1)
    thirds = np.histogram(scaled_s, [0, 100, 200, 300])[0]
    assert thirds[1] == 0
    assert thirds[2] / thirds[0] == pytest.approx(2, rel=0.2)


BAD_TRACES = {
    "empty": ("a.txt", "", "has no arrivals"),
    "words": ("a.txt", "1\nsoon\n", "line 2 of trace"),
    "no rows": ("a.csv", "seconds,size\n", "has no rows"),
    "no header": ("a.csv", "1,2\n3,4\n", "has no header"),
    "no times": ("a.csv", "size\n3\n", "exactly one must be named"),
    "two times": ("a.csv", "seconds,date\n3,4\n", "exactly one must be named"),
    "two counts": ("a.csv", "seconds,count,events\n3,4,5\n", "exactly one must be named"),
    "twice": ("a.csv", "seconds,a,a\n3,4,5\n", "two columns 'a'"),
    "short row": ("a.csv", "seconds,a\n3\n", "line 2 of table"),
    "no number": ("a.csv", "seconds,a\n3,x\n", "'x' in column 'a'"),
    "infinite": ("a.csv", "seconds\ninf\n", "'inf' in column 'seconds'"),
    "one step": ("a.csv", "seconds,count\n0,4\n", "at least two steps"),
    "same step": ("a.csv", "seconds,count\n0,4\n0,4\n", "at least two steps"),
    "half an item": ("a.csv", "seconds,count\n0,4\n1,0.5\n", "whole numbers"),
    "nothing came": ("a.csv", "seconds,count\n0,0\n1,0\n", "whole numbers"),
}


@pytest.mark.parametrize(("name", "text", "sentence"), BAD_TRACES.values(), ids=BAD_TRACES)
def test_a_bad_trace_is_one_sentence(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match=sentence) as caught:
        read_trace(written(tmp_path, text, name))
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["none.txt", "none.csv"])
def test_a_trace_that_does_not_exist_is_one_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match="cannot be read: No such file"):
        read_trace(tmp_path / name)


def test_a_table_in_bytes_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecomposeError, match="no text in UTF-8"):
        read_trace(tmp_path / "a.csv")


# --- apps -------------------------------------------------------------------------------------------------------------


@each_app
def test_items_of_an_app_fit_its_machine_and_bound(name: str) -> None:
    app = APPS[name]
    cpu_s, wait_s = typical_costs(app)
    total_s = (cpu_s + wait_s).sum(axis=1)
    assert cpu_s.shape == wait_s.shape == (len(total_s), len(app.stages))
    assert cpu_s.min() > 0
    assert wait_s.min() >= 0
    queued = name == "ray65540"  # a batch that someone else measured, on a machine of theirs
    assert 0.09 < mean_item_s(app) < (8 if queued else 0.51)
    assert 2.5 <= app.bound_s / np.percentile(total_s, 95) <= (100 if queued else 5)
    assert 8 <= app.machine.cores <= (128 if queued else 16)
    assert app.machine.most_workers >= max(app.machine.cores, len(app.stages))


@each_app
def test_the_same_seed_gives_the_same_work_and_another_seed_other_costs(name: str) -> None:
    app, load = APPS[name], LOADS["constant"]
    once, again, other = (work_of(app, load, 300.0, 5.0, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(once.due_s, again.due_s)
    np.testing.assert_array_equal(once.cpu_s, again.cpu_s)
    np.testing.assert_array_equal(once.wait_s, again.wait_s)
    assert len(once) == len(once.cpu_s) == len(once.wait_s)
    assert not np.array_equal(once.cpu_s[:100], other.cpu_s[:100])


@each_app
def test_a_run_without_items_has_costs_of_none(name: str) -> None:
    cpu_s, wait_s = APPS[name].costs(0, 1, None, np.empty(0))
    assert cpu_s.shape == wait_s.shape == (0, len(APPS[name].stages))


@pytest.mark.parametrize(
    ("name", "file"), [("ferret", "ferret"), ("person", "person_recognition"), ("lane", "lane_detection")]
)
def test_recorded_costs_keep_their_order_and_correlation(name: str, file: str) -> None:
    table = read_table(RECORDED / "costs" / f"{file}.csv")
    own = np.column_stack([table.column(stage.name) for stage in APPS[name].stages])
    cpu_s, _ = APPS[name].costs(len(own), 5, None, np.arange(len(own), dtype=float))
    factor = cpu_s.sum() / own.sum()
    turn = next(turn for turn in range(len(own)) if np.allclose(np.roll(own, -turn, axis=0) * factor, cpu_s))
    assert turn != 0


def test_tokens_cost_by_the_sizes_of_the_load_or_the_recorded_ones() -> None:
    app = APPS["tokens"]
    sizes = np.array([[100.0, 5.0], [300.0, 0.0], [200.0, 10.0]])
    cpu_s, _ = app.costs(3, 1, sizes, np.arange(3.0))
    np.testing.assert_allclose(cpu_s[:, 0] / cpu_s[0, 0], [1, 3, 2])
    np.testing.assert_allclose(cpu_s[:, 1] / cpu_s[0, 1], [1, 0, 2])
    means_s = [work_of(app, LOADS[load], HOUR_S, 2.0, 1).cpu_s.mean(axis=0) for load in ("azure", "constant")]
    np.testing.assert_allclose(means_s[0], means_s[1])


def parts(app: AppModel, edges: tuple[float, ...]) -> list[float]:
    """Mean cost of the second stage between these parts of an hour, over what it is in the first one."""
    due_s: Floats = np.linspace(0, HOUR_S, 20_000)
    cpu_s, _ = app.costs(len(due_s), 1, None, due_s)
    means = [cpu_s[(due_s >= a * HOUR_S) & (due_s < b * HOUR_S), 1].mean() for a, b in pairwise(edges)]
    return [float(mean / means[0]) for mean in means]


@pytest.mark.parametrize(
    ("name", "edges", "wanted"),
    [
        ("slowdown", (0, 0.5, 0.5 + 120 / HOUR_S, 1), [1, 3, 1]),
        ("sixfold", (0, 0.5, 1), [1, 6]),
        ("leak", (0, 0.1, 0.3, 0.5, 0.7, 0.8, 1), [1, 1.09, 1.21, 1.33, 1.42, 0.97]),
    ],
)
def test_costs_change_when_they_are_to(name: str, edges: tuple[float, ...], wanted: list[float]) -> None:
    assert parts(APPS[name], edges) == pytest.approx(wanted, rel=0.06)


def test_costs_come_in_runs_where_the_content_does() -> None:
    due_s: Floats = np.arange(20_000.0)
    cpu_s, _ = APPS["regimes"].costs(len(due_s), 1, None, due_s)
    log = np.log(cpu_s[:, 1])
    assert np.corrcoef(log[50:], log[:-50])[0, 1] > 0.5
    assert abs(np.corrcoef(log[1000:], log[:-1000])[0, 1]) < 0.3


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


def test_a_users_app_needs_its_costs_only(tmp_path: Path) -> None:
    app = read_app(written(tmp_path, "# unit: s\nwork\n0.2\n0.2\n"))
    assert app.bound_s == pytest.approx(0.7)
    assert app.machine.cores == app.machine.most_workers == 8
    assert mean_item_s(app) == pytest.approx(0.2)


BAD_APPS = {
    "cores": ("# cores: many\na\n1\n", "cores: 'many'; must be a whole number from 1 on"),
    "half a core": ("# cores: 1.5\na\n1\n", "must be a whole number from 1 on"),
    "bound": ("# bound_ms: 0\na\n1\n", "must be a number from 0.001 on"),
    "start": ("# start_s: -1\na\n1\n", "must be a number from 0 on"),
    "unit": ("# unit: ms\na\n1\n", "unit: 'ms'; must be us or s"),
    "wait": ("# wait: maybe\na\n1\n", "must be no or yes"),
    "unknown key": ("# bound_s: 3\na\n1\n", "comment 'bound_s', which is unknown"),
    "unknown stage": ("# stage b: stateful\na\n1\n", "comment 'stage b', which is unknown"),
    "unknown trait": ("# stage a: fast\na\n1\n", "must be stateful, servers NUMBER"),
    "servers": ("# stage a: servers no\na\n1\n", "stage a servers: 'no'; must be a whole number"),
    "negative": ("a\n-1\n", "costs from 0 on"),
    "nothing": ("a\n0\n", "not all zero"),
    "walls only": ("a.wall\n1\n", "must have a stage"),
}


@pytest.mark.parametrize(("text", "sentence"), BAD_APPS.values(), ids=BAD_APPS)
def test_a_bad_app_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(RecomposeError) as caught:
        read_app(written(tmp_path, text))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


# --- recording --------------------------------------------------------------------------------------------------------


class Numbers(App):
    """Fails for two of its ten inputs."""

    name = "numbers"
    stages = (Stage("double"), Stage("check"))

    def items(self, path: Path | None) -> range:  # type: ignore[override]
        return range(10)

    def double(self, value: int) -> int:
        return 2 * value

    def check(self, value: int) -> int:
        if value % 10 == 8:
            raise RecomposeError("no")
        return value


def test_a_recording_has_a_row_an_item_and_reads_as_an_app(tmp_path: Path) -> None:
    recording = record(Numbers(), None, 30)
    assert (len(recording.rows), recording.inputs, recording.failed) == (30, 10, 2 * ((30 + WARM_UP) // 8))
    path = written(tmp_path, recording.text({"app": "numbers", "data": "ten, of which two fail"}))
    table = read_table(path)
    assert table.columns == ("double", "double.wall", "check", "check.wall")
    assert dict(table.comments) == {"app": "numbers", "data": "ten, of which two fail"}


class Nothing(Numbers):
    def items(self, path: Path | None) -> range:  # type: ignore[override]
        return range(0)


def test_an_app_without_inputs_is_not_recorded() -> None:
    with pytest.raises(RecomposeError, match="finds no inputs"):
        record(Nothing(), None, 3)


class Counting(Numbers):
    stages = (Stage("double"), Stage("check", StageKind.STATEFUL))


def test_stages_with_a_state_are_not_recorded() -> None:
    with pytest.raises(RecomposeError, match="stage 'check' of app 'numbers' keeps a state"):
        record(Counting(), None, 3)


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
