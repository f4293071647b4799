"""A user's own input pattern, by name: from the command line, a body, or an experiment, to a rate."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from compositions.errors import RecomposeError
from datapipe.sources.rate_spec import RateSpec, from_spec
from service.cli.texts import parse_pattern
from service.daemon.apps import check_change
from service.runner.rpc.requests import SetInput
from service.runner.validation.resolution import rate_of
from service.schemas.refusals import BadValueError
from service.schemas.spec import InputSpec

PATTERNS = """
def sawtooth(elapsed_s):
    return 2 + elapsed_s % 3

def broken(elapsed_s):
    return 1 / elapsed_s

def negative(elapsed_s):
    return -1

def no_arguments():
    return 5

FIVE = 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PATTERNS)
    (tmp_path / "faulty.py").write_text("1 / 0")
    return tmp_path


def test_it_is_the_same_from_the_command_line_and_in_a_body(folder: Path) -> None:
    given = parse_pattern("custom:mine:sawtooth")
    assert given == InputSpec(pattern="custom:mine:sawtooth")
    rate = rate_of(given, [str(folder)])
    assert [rate(0.0), rate(2.5), rate(3.0)] == [2.0, 4.5, 2.0]
    check_change(SetInput(given), [str(folder)])


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("custom:yours:sawtooth", "there is no module 'yours' in the folders of apps: /"),
        ("custom:mine:square", "module 'mine' has no function 'square'"),
        ("custom:mine:broken", "fails at 0 s: ZeroDivisionError"),
        ("custom:mine:negative", "returned -1 at 0 s; must be items/s, 0 or more and finite"),
        ("custom:faulty:rate", "cannot be loaded: ZeroDivisionError"),
    ],
)
def test_what_is_none_is_refused_before_anything_runs(pattern: str, why: str, folder: Path) -> None:
    with pytest.raises(BadValueError, match=why):
        check_change(SetInput(InputSpec(pattern=pattern)), [str(folder)])


def test_without_folders_of_apps_the_sentence_says_what_to_give() -> None:
    with pytest.raises(RecomposeError, match=r"none was given \(--apps FOLDER\)"):
        rate_of(InputSpec(pattern="custom:mine:sawtooth"), [])
    with pytest.raises(RecomposeError, match="cannot be looked for here"):
        from_spec(RateSpec(pattern="custom:mine:sawtooth"))


@pytest.mark.parametrize("pattern", ["custom:mine", "custom::f", "custom:a.b", "custom:../x:f", "Custom:a:b", 3, True])
def test_another_form_is_refused(pattern: object) -> None:
    with pytest.raises(ValidationError, match=r"must be wave, binary, .* or custom:MODULE:FUNCTION"):
        InputSpec.model_validate({"pattern": pattern})
