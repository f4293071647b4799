"""What a lane makes of tests that fail: those that fail twice are red, those that pass alone are named as flaky."""

import importlib.util
from pathlib import Path

import pytest

TESTS = """
from pathlib import Path

def test_flaky():
    once = Path(__file__).with_name("once")
    if not once.exists():
        once.touch()
        raise AssertionError

def test_red(): raise AssertionError
def test_green(): pass
"""


def test_a_test_that_fails_beside_others_and_passes_alone_is_flaky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("lanes", Path(__file__).parents[1] / "lanes.py")
    assert spec is not None
    assert spec.loader is not None
    lanes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lanes)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    monkeypatch.chdir(tmp_path)
    assert lanes.run(([], ["test_some.py"]), "not long") == (["test_some.py::test_red"], ["test_some.py::test_flaky"])
