"""The core works where no extra is installed, and says which one is missing."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from compositions.extras import EXTRAS

ROOT = Path(__file__).parents[2]
MODULES = [module for modules in EXTRAS.values() for module in modules]
WITHOUT = f"import sys\nsys.modules.update(dict.fromkeys({MODULES!r}))\n"


def ran(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False)


SCRIPT = "from recompose import RecomposeError, pipeline, run\ndef double(value): return 2 * value\n"


def test_a_script_runs_in_threads_without_any_extra_and_loads_no_library_that_it_does_not_need() -> None:
    done = ran(
        f"{SCRIPT}print([each.value for each in run(pipeline(double), source=[1, 2], pool='local')])\n"
        "print([each for each in ('rich', 'structlog', 'yaml', 'fastapi') if sys.modules.get(each)])\n"
        "try:\n    run(pipeline(double), source=[1])\nexcept RecomposeError as error:\n    print(error)"
    )
    told = ["[2, 4]", "[]", "ray is not installed: pip install 'recompose[ray]'"]
    assert done.stdout.splitlines() == told, done.stderr


def test_the_first_line_of_a_script_that_logs_goes_to_stderr_as_a_warning() -> None:
    done = ran(
        "from compositions.logger import Logger, quiet\nquiet()\n"
        "Logger(app='words').info('all is well')\nLogger(app='words').warning('not all is well')"
    )
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "not all is well" in line
    assert "words" in line


@pytest.mark.parametrize(("words", "extra"), [("status", "service"), ("serve", "service"), ("run synthetic", "ray")])
def test_a_command_names_the_extra_that_it_needs(words: str, extra: str) -> None:
    done = ran(f"sys.argv[1:] = {words.split()!r}\nfrom recompose.__main__ import main\nmain()")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"is not installed: pip install 'recompose[{extra}]'")


def test_the_help_needs_no_extra() -> None:
    assert "Usage" in ran("from service.cli.main import main\nmain(['run', '--help'])").stdout


def test_a_bundled_app_without_its_extra_is_no_fault_until_it_is_asked_for() -> None:
    done = ran(
        "from apps import registry\nfrom compositions.errors import RecomposeError\nprint(registry.scan().faults)\n"
        "for name in ('lane_detection', 'x'):\n"
        "    try:\n        registry.find(name)\n    except RecomposeError as error:\n        print(error)\n"
    )
    faults, needed, unknown = done.stdout.splitlines()
    assert faults == "()"
    assert needed == "app 'lane_detection': cv2 is not installed: pip install 'recompose[video]'"
    assert "synthetic" in unknown
    assert "cv2" not in unknown


def test_every_library_of_an_extra_leads_to_it_when_it_is_missing() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    called = {"opencv-contrib-python-headless": "cv2", "scikit-image": "skimage", "pyzmq": "zmq"}
    names = {re.split(r"[^\w-]", each)[0] for extra in EXTRAS for each in extras[extra]}
    assert {called.get(name, name.replace("-", "_")) for name in names} <= set(MODULES)


def test_the_demo_shows_the_gain_without_ray() -> None:
    """The first composition misses the objective under the load; the chosen one meets it."""
    done = ran(
        "from control.decisions import Mode\nfrom service.cli.demo import Plan, Scene, in_threads\n"
        "scenes = Scene(160.0, 2.0, Mode.OBSERVE, 'watched'), Scene(160.0, 15.0, Mode.AUTO, 'adapted')\n"
        "in_threads(Plan(scenes, 100.0))"
    )
    watched, _, adapted = done.stdout.partition("adapted: 160 items/s")
    assert watched.splitlines()[-2].endswith("ms, missed"), done.stderr
    assert "Seq(f1)-Seq(f2)-Seq(f3), 3 workers" in watched
    shown, _, summary = adapted.partition("Summary")
    assert re.search(r"switches +[1-9]", summary)  # two decisions between two looks show as the later one
    assert shown.splitlines()[-1].endswith("ms, met")
    assert "lost 0" in summary
