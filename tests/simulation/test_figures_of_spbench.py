"""Find in virtual time what SPBench found of workers and batches (Garcia et al. 2023, figures 7 to 11)."""

from pathlib import Path
from statistics import fmean

import pytest

from compositions.errors import RecomposeError
from lab.experiments.contender import Measurement, compositions_of, contenders
from lab.experiments.live import LiveDriver
from lab.experiments.spec import Experiment, Load, read_experiments
from lab.experiments.virtual import VirtualDriver

FIGURES = Path(__file__).parents[2] / "lab" / "benchmarks" / "experiments"


def figure(name: str, which: str | None = None) -> Experiment:
    found = read_experiments(FIGURES / f"{name}.yaml", quick=True)
    return found[f"{name}-{which}" if which else name]


def runs(experiment: Experiment) -> dict[str, Measurement]:
    driver = VirtualDriver(experiment, compositions_of(experiment))
    rate = experiment.input.rate(0.0)
    return {each.name: driver.run(each, 0, rate) for each in contenders(experiment, compositions_of(experiment))}


def test_larger_batches_cost_latency_and_win_no_throughput() -> None:
    found = runs(figure("spbench_fig10_11_lane_batches"))
    assert len(found) == 15
    for workers in ("1", "2", "4"):
        one, sixteen = found[f"{workers} by 1"], found[f"{workers} by 16"]
        assert sixteen.achieved_per_s == pytest.approx(one.achieved_per_s, rel=0.05)
        assert sixteen.latency_ms > 6 * one.latency_ms


def test_more_workers_have_more_throughput() -> None:
    found = runs(figure("spbench_fig07_workers", "lane_detection"))
    assert found["4"].achieved_per_s == pytest.approx(4 * found["1"].achieved_per_s, rel=0.05)


def test_replicas_beyond_the_cores_cost_latency() -> None:
    """As in figure 2 of the paper on SPar: best throughput at 22, least latency with few, more from 11 on."""
    found = {int(name): run for name, run in runs(figure("spar_fig02_lane_replicas")).items()}
    rates, inside_ms = ({n: getattr(run, of) for n, run in found.items()} for of in ("achieved_per_s", "inside_ms"))
    assert max(rates, key=rates.__getitem__) == 22
    assert inside_ms[10] == pytest.approx(inside_ms[1], rel=0.1)
    assert inside_ms[11] > 1.1 * inside_ms[10]
    assert inside_ms[22] > 1.5 * inside_ms[10]


def test_the_size_of_batches_grows_while_it_runs() -> None:
    (run,) = runs(figure("spbench_fig08_09_growing_batches", "bzip2")).values()
    early, late = ([s.latency_ms or 0.0 for s in run.samples if a < s.at_s < b] for a, b in ((1, 4), (38, 42)))
    assert fmean(late) > 4 * fmean(early)


def test_a_source_that_is_always_full_is_no_rate() -> None:
    assert Load(full=True).rate(5.0) is None
    with pytest.raises(ValueError, match=r"give either steps, .*, or a pattern, or full: true"):
        Load(full=True, pattern="wave")
    run = runs(figure("spbench_fig06_sequential", "bzip2"))["sequential"]
    assert run.asked_per_s == 0.0
    assert run.achieved_per_s == pytest.approx(1000 / 64, rel=0.05)


def test_a_run_is_over_with_the_items_of_its_class() -> None:
    found = runs(figure("spbench_input_classes", "bzip2"))
    assert list(found) == ["farm, test", "farm, small", "farm, medium"]
    for name, items in (("farm, test", 10), ("farm, small", 50), ("farm, medium", 400)):
        assert sum(sample.throughput_per_s * 0.25 for sample in found[name].samples) == pytest.approx(items)
        took_s = found[name].samples[-1].at_s
        assert took_s == pytest.approx(items * 0.064 / 2, rel=0.1, abs=1.5), "and a second of start"


def test_settings_of_a_run_are_checked() -> None:
    experiment = figure("spbench_fig06_sequential", "bzip2").model_copy(update={"settings": {"buffer": 1}})
    with pytest.raises(RecomposeError, match="unknown setting 'buffer'"):
        runs(experiment)


def test_real_workers_get_the_same_sizes_and_settings() -> None:
    experiment = figure("spbench_fig10_11_lane_batches")
    compositions = compositions_of(experiment)
    spec = LiveDriver(experiment, compositions).spec(contenders(experiment, compositions)[3])
    assert spec.composition == "1 by 8"
    assert [each.batch.items for each in spec.compositions if each.batch] == [8]
    assert spec.settings == {"buffer_items": 1}


def test_a_path_is_what_the_app_reads_unless_the_pattern_needs_it(tmp_path: Path) -> None:
    film = str(tmp_path / "film.mp4")
    assert Load(full=True, path=film).data_set == film
    assert Load(pattern="wave", period_s=3, max=2, path=film).data_set == film
    assert Load(full=True).data_set is None
    assert Load(pattern="trace", path=film, period_s=3).data_set is None
    assert Load(pattern="custom:mine:rate", path=str(tmp_path)).data_set is None
    experiment = figure("patterns_face_recognizer", "spike_360p")
    compositions = compositions_of(experiment)
    spec = LiveDriver(experiment, compositions).spec(contenders(experiment, compositions)[0])
    assert (spec.options["height"], spec.options["scale"]) == (360, 1.05)
    assert spec.source.path.endswith("person/short_hamilton_clip.mp4")
