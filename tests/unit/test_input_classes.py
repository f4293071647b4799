"""Amounts of input by name: on the command line, in answers, and in experiments."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from apps import registry
from compositions.errors import RecomposeError
from control.decisions import State
from lab.experiments.contender import Left, Point, Seen, compositions_of, contenders, measurement_of
from lab.experiments.figures import Spread
from lab.experiments.live import LiveDriver
from lab.experiments.spec import Experiment
from service.cli import main
from service.cli.texts import items_of, parse_amount
from service.schemas.compositions import AppInfo

CLASSES = ["test", "small", "medium", "large", "huge"]
FEW = {
    "title": "few", "shows": "few", "app": "synthetic", "driver": "local", "duration_s": 60,
    "options": {"total_ms": 0.3, "compute": "wait"}, "input": {"full": True, "items": [40]}, "static": ["1"],
}  # fmt: skip


@pytest.mark.parametrize("name", ["bzip2", "face_recognizer", "person_recognition", "ferret", "lane_detection_4"])
def test_the_applications_of_spbench_have_its_classes(name: str) -> None:
    app = registry.find(name)
    assert list(app.input_classes) == CLASSES
    assert sorted(app.input_classes.values()) == list(app.input_classes.values())
    assert AppInfo.of(app, (), State.STOPPED).input_classes == dict(app.input_classes)


def test_an_amount_is_a_number_or_a_class() -> None:
    assert (parse_amount("40"), parse_amount("huge"), parse_amount("+-5")) == (40, "huge", "+-5")
    assert items_of("mine", {"small": 7}, 40) == 40
    assert items_of("mine", {"small": 7}, "small") == 7
    with pytest.raises(ValueError, match="0 is no number of items; give 1 or more, or a class of input such as small"):
        parse_amount("0")
    sentence = "app 'mine' has no class of input 'tiny'; it has small; a number of items is accepted, too"
    with pytest.raises(RecomposeError, match=re.escape(sentence)):
        items_of("mine", {"small": 7}, "tiny")


def test_a_run_of_a_class_has_its_items(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"over and over, " * 100)
    small = ["--items", "small", "-o", "block_bytes=1000", "--source", f"replay:{text}", "--pool", "local", "--json"]
    result = CliRunner().invoke(main, ["run", "bzip2", *small])
    assert result.exit_code == 0, result.output
    assert '"delivered": 50' in result.stdout


def test_an_experiment_on_workers_is_over_with_its_items() -> None:
    experiment = Experiment.model_validate(FEW)
    (contender,) = contenders(experiment, compositions_of(experiment))
    assert (contender.name, contender.items) == ("1", 40)
    run = LiveDriver(experiment, compositions_of(experiment)).run(contender, 0, None)
    assert run.samples[-1].at_s < 30


def test_of_several_amounts_each_is_a_run_of_every_composition() -> None:
    experiment = Experiment.model_validate({**FEW, "input": {"full": True, "items": [40, 80]}, "static": ["1", "7"]})
    named = {each.name: each.items for each in contenders(experiment, compositions_of(experiment))}
    assert named == {"1, 40": 40, "1, 80": 80, "7, 40": 40, "7, 80": 80}
    with pytest.raises(ValidationError, match="strategies are compared on one amount of items"):
        Experiment.model_validate({**experiment.model_dump(), "strategies": ["expected-cost"], "slo": "throughput=5/s"})


POINT = Point(at_s=1.0, rate_per_s=10.0, throughput_per_s=10.0, latency_ms=100.0, composition="1", workers=1, met=None)


def test_every_item_counts_once_and_in_its_own_quarter_of_a_second() -> None:
    """10 items of 100 ms and 30 of 20 ms; one is of the warm-up, one of after the end."""
    times = [(0.1, 9.0), *((0.3, 0.1),) * 10, *((0.7, 0.02),) * 30, (1.1, 7.0)]
    samples = [replace(POINT, at_s=number * 0.25) for number in range(1, 5)]
    run = measurement_of("1", 0, Seen(samples, [Left(*each) for each in times], 0, 0), warm_up_s=0.25)
    assert run.latency_ms == pytest.approx(40.0)
    assert [sample.latency_ms for sample in run.samples] == [9000.0, pytest.approx(100.0), pytest.approx(20.0), None]
    assert [sample.throughput_per_s for sample in run.samples] == [4.0, 40.0, 120.0, 0.0]
    assert measurement_of("1", 0, Seen(samples, [], 0, 0), 0.25).latency_ms is None


def test_repetitions_have_a_mean_and_a_standard_deviation() -> None:
    assert Spread.of([1.0, 3.0, None]) == Spread(2.0, pytest.approx(2**0.5))
    assert Spread.of([5.0]) == Spread(5.0, None)
    assert Spread.of([None]) is None
