"""The scripts and notebooks of the documentation, run as they are."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from markdown import ROOT, blocks

SCRIPTS = ROOT / "docs" / "scripts"
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))


def output_of(*words: str, cwd: Path) -> str:
    """Fails with what it said when it failed."""
    done = subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_script_runs_on_ray(tmp_path: Path) -> None:
    """Its class ``Word`` is one of ``__main__``, which is another module in a worker."""
    rows = [line.split(" ", 1) for line in output_of(str(SCRIPTS / "shout.py"), cwd=tmp_path).splitlines()]
    assert rows[0] == ["0", "{'word': 'TO', 'count': 1}"]
    assert [serial for serial, _ in rows] == ["0", "0", "1", "1", "2", "2"]
    assert rows[-1] == ["2", "{'word': 'BE', 'count': 2}"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_prints_what_its_page_shows(example: Path, tmp_path: Path) -> None:
    """The times of the calls differ."""
    sections = (ROOT / "docs" / "examples" / "README.md").read_text().split("\n## ")
    section = next(part for part in sections if f"({example.name})" in part)
    shown = section.partition("```text\n")[2].partition("```")[0]
    printed = output_of(str(example), cwd=tmp_path)
    times = r"in .*/s|take .*" if example.stem == "calls" else "never"
    assert re.sub(times, "…", printed) == re.sub(times, "…", shown)
    assert len(example.read_text().splitlines()) <= 60


def test_a_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """The last line of each cell is shown as a notebook would."""
    notebook = json.loads((SCRIPTS / "roots.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    (tmp_path / "cells.json").write_text(json.dumps(cells))
    (tmp_path / "run.py").write_text(KERNEL)
    shown = json.loads(output_of("run.py", cwd=tmp_path).splitlines()[-1])
    assert "'number': 4, 'root': 2.0" in shown[0]
    assert shown[1].startswith("<table><caption>roots")
    assert "SLO</th><td>throughput input_rate" in shown[1]
    assert shown[2] == "True"


KERNEL = """
import ast, json, pathlib

shown = []
for text in json.loads(pathlib.Path("cells.json").read_text()):
    cell = ast.parse(text)
    last = cell.body.pop() if isinstance(cell.body[-1], ast.Expr) else None
    exec(compile(cell, "cell", "exec"), globals())
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), globals())
        shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
print(json.dumps(shown))
"""
"""Shows what a notebook shows."""


def test_the_document_has_the_script_that_is_tested() -> None:
    (block,) = blocks(ROOT / "docs" / "start" / "scripts.md", "python")
    assert block.text == (SCRIPTS / "shout.py").read_text()


ENDLESS = """
import itertools, signal, time
from recompose import pipeline, run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may have ignored it

def slowly(number):
    time.sleep(0.01)
    return number

for result in run(pipeline(slowly), source=itertools.count(), pool="local"):
    print(result.value, flush=True)
"""


def test_ctrl_c_delivers_what_was_accepted_and_says_so(tmp_path: Path) -> None:
    words = [sys.executable, "-c", ENDLESS]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as script:
        assert [script.stdout.readline() for _ in range(3)] == ["0\n", "1\n", "2\n"]
        script.send_signal(signal.SIGINT)
        _, said = script.communicate(timeout=60)
    told = re.search(r"interrupted; items: accepted ([\d,]+), delivered ([\d,]+)\n", said)
    assert told is not None, said
    assert told[1] == told[2]
    assert script.returncode == -signal.SIGINT
