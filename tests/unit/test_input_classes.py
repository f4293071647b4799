"""Amounts of input by name: on the command line, in answers, and in experiments."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from apps import registry
from compositions.errors import RecomposeError
from control.decisions import State
from lab.experiments.contender import compositions_of, contenders
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


def test_the_largest_are_as_published() -> None:
    """Lane Detection 120 s, Face Recognizer 30 s of video, Bzip2 4.2 GB, Ferret native."""
    assert registry.find("lane_detection").input_classes["huge"] == 120 * 25
    assert registry.find("face_recognizer").input_classes["huge"] == 30 * 30
    assert registry.find("bzip2").input_classes["huge"] * 900_000 == pytest.approx(4.2e9, rel=1e-3)
    assert registry.find("ferret").input_classes["huge"] == 3500


def test_an_amount_is_a_number_or_a_class() -> None:
    assert (parse_amount("40"), parse_amount("huge"), parse_amount("+-5")) == (40, "huge", "+-5")
    assert items_of("mine", {"small": 7}, 40) == 40
    assert items_of("mine", {"small": 7}, "small") == 7
    with pytest.raises(ValueError, match="0 is no number of items; give 1 or more, or a class of input such as small"):
        parse_amount("0")
    sentence = "app 'mine' has no class of input 'tiny'; it has small; a number of items does as well"
    with pytest.raises(RecomposeError, match=re.escape(sentence)):
        items_of("mine", {"small": 7}, "tiny")


def test_an_app_without_classes_says_so_on_the_command_line() -> None:
    result = CliRunner().invoke(main, ["run", "synthetic", "--pool", "local", "--items", "huge"])
    assert result.exit_code == 1
    assert "app 'synthetic' has no class of input 'huge'; it has none; a number of items does as well" in result.output


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


@pytest.mark.parametrize(
    ("sizes", "payload_bytes"), [({"batches": [8]}, 600_000), ({"batch_steps": [[0, 8]]}, 1000)], ids=["fixed", "steps"]
)
def test_bundles_of_eight_have_eight_items(sizes: dict[str, Any], payload_bytes: int) -> None:
    """Neither the weight of large items nor a slow source closes a bundle early."""
    load = {"steps": [[0, 60]], "items": [64], **sizes}
    large = {**FEW["options"], "payload_bytes": payload_bytes}
    experiment = Experiment.model_validate({**FEW, "input": load, "options": large})
    (contender,) = contenders(experiment, compositions_of(experiment))
    run = LiveDriver(experiment, compositions_of(experiment)).run(contender, 0, experiment.input.rate(0.0))
    assert 8.0 in [each.batch_items for each in run.samples], "the first and the last bundle of steps have fewer"


def test_of_several_amounts_each_is_a_run_of_every_composition() -> None:
    experiment = Experiment.model_validate({**FEW, "input": {"full": True, "items": [40, 80]}, "static": ["1", "7"]})
    named = {each.name: each.items for each in contenders(experiment, compositions_of(experiment))}
    assert named == {"1, 40": 40, "1, 80": 80, "7, 40": 40, "7, 80": 80}
    with pytest.raises(ValidationError, match="strategies are compared on one amount of items"):
        Experiment.model_validate({**experiment.model_dump(), "strategies": ["expected-cost"], "slo": "throughput=5/s"})
