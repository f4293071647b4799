"""The example app of the documentation does what the documentation says."""

from pathlib import Path

import pytest

from apps.registry import compositions_file, create, find
from compositions.document.loader import load
from compositions.model import StageKind

FOLDER = Path(__file__).parents[2] / "docs" / "own-app"


def run_sequentially(app, items):
    """Each stage in order on each item, stateful ones with what they returned last."""
    states = {}
    for value in items:
        for stage in app.stages:
            method = getattr(app, stage.name)
            if stage.kind is StageKind.STATEFUL:
                value, states[stage.name] = method(value, states.get(stage.name))
            else:
                value = method(value)
        yield app.encode_result(value)


@pytest.fixture
def app():
    app = create("repeats", {}, [FOLDER])
    app.setup()
    return app


def test_near_repeats_are_found_and_others_are_not(app):
    lines = [
        "The quick brown fox jumps over the lazy dog near the river",
        "An entirely different sentence about stream processing",
        "the quick brown fox jumped over the lazy dog near the  river",
        "An entirely different sentence about stream processing",
    ]
    repeats = [result["repeats"] for result in run_sequentially(app, lines)]
    assert repeats == [None, None, lines[0], lines[1]]


def test_only_the_fifty_lines_before_count(app):
    others = [f"{chr(97 + k % 26) * 40}{chr(97 + k // 26) * 40}" for k in range(50)]
    first = "A line to be seen again much later in this stream of lines"
    assert list(run_sequentially(app, [first, *others, first]))[-1]["repeats"] is None
    assert list(run_sequentially(app, [first, *others[1:], first]))[-1]["repeats"] == first


def test_it_reads_the_users_file_or_its_own(app, tmp_path):
    file = tmp_path / "log.txt"
    file.write_text("one\ntwo\n")
    assert list(app.items(file)) == ["one", "two"]
    assert "class Repeats(App):" in list(app.items(None))


def test_its_compositions_load():
    app_class = find("repeats", [FOLDER])
    file = compositions_file(app_class)
    assert file == FOLDER / "repeats.yaml"
    document = load(file.read_text(), {"repeats": app_class.stages})
    assert {each.name: each.workers for each in document.compositions} == {
        "sequential": 3,
        "merged": 1,
        "parallel": 3,
        "wide": 6,
    }
