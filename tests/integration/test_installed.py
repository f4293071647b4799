"""Installed from the wheel, beside a user's own packages ``apps``, ``service``, ``control`` and ``runtime``."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from image_steps import ROOT, call

import hatch_build
from lab.benchmarks.daemon import free_port
from recompose import names
from tests.support.waiting import eventually

PROJECT = {
    "apps/__init__.py": "",
    "apps/catalog/__init__.py": "",
    "apps/catalog/models.py": "class Product:\n    def __init__(self, name):\n        self.name = name\n",
    "service/__init__.py": "def priced(product):\n    return len(product.name)\n",
    "control/__init__.py": "",
    "runtime/__init__.py": "",
    "streams/__init__.py": "",
    "streams/prices.py": """
from apps.catalog.models import Product
from recompose import App, Stage
from service import priced

class ShopPrices(App):
    name = "shop_prices"
    stages = (Stage("load"), Stage("price"))

    def load(self, name):
        return Product(name)

    def price(self, product):
        import os, service
        return {"name": product.name, "price": priced(product), "worker": os.getpid(), "service": service.__file__}
""",
    "manage.py": """
import os
import re
import apps.catalog.models, control, runtime, service
from recompose import run
from streams.prices import ShopPrices

rows = [row for row in run(ShopPrices, source=["tea", "coffee"], slo="p95<=400ms")]
assert [row.value["price"] for row in rows] == [3, 6], rows
assert os.getpid() not in {row.value["worker"] for row in rows}
assert {row.value["service"] for row in rows} == {service.__file__}, rows
for module in (apps, control, runtime, service):
    assert module.__file__.startswith(os.getcwd()), module
print("all theirs")
""",
}
"""As Django lays projects out: run from the folder that has ``manage.py``."""
SERVICE = "service: {{apps: [streams], state: state, telemetry: false, port: {port}}}\napps:\n  shop_prices: {entry}\n"


def untouched() -> dict[str, str]:
    """The environment without the path to this tree, which a test before may have left for Ray's processes."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and what the wheel needs."""

    bin: Path

    def ran(self, *words: str, cwd: Path) -> str:
        """What the command said. Fails with it when it failed."""
        command = [str(self.bin / words[0]), *words[1:]]
        how: dict[str, Any] = {"cwd": cwd, "env": untouched(), "capture_output": True, "text": True}
        done = subprocess.run(command, timeout=120, check=False, **how)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The libraries are this environment's: its own editable installation of us is not looked at by another one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder / "venv")}))
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(packages)
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    command = folder / "venv" / "bin" / "recompose"
    command.write_text(f"#!{command.with_name('python')}\nfrom recompose.__main__ import main\n\nmain()\n")
    command.chmod(0o755)
    return Installed(command.parent)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        (tmp_path / "shop" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shop" / name).write_text(text)
    return tmp_path / "shop"


def test_a_django_project_keeps_its_packages_and_runs_an_app_on_ray(installed: Installed, shop: Path) -> None:
    assert installed.ran("python", "manage.py", cwd=shop).splitlines()[-1] == "all theirs"


def test_apps_that_name_our_rooms_run_on_ray_in_that_project(installed: Installed, shop: Path) -> None:
    """``from apps.contract import App`` in a folder of apps, though the current folder has a package ``apps``."""
    shutil.copytree(ROOT / "docs" / "own-app", shop / "own-app")
    run = ("run", "readings", "--apps", "own-app", "--items", "30", "--out", "results.jsonl")
    installed.ran("recompose", *run, cwd=shop)
    assert len((shop / "results.jsonl").read_text().splitlines()) == 30


def test_a_service_in_that_project_runs_what_its_file_says_and_reads_it_again(installed: Installed, shop: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def write(entry: str) -> None:
        (shop / "new.yaml").write_text(SERVICE.format(port=port, entry=entry))
        (shop / "new.yaml").replace(shop / "service.yaml")

    write("{source: push}")
    with (
        (shop / "log").open("w") as log,
        subprocess.Popen(
            [installed.bin / "recompose", "serve", "--config", "service.yaml"],
            cwd=shop, env=untouched(), stdout=log, stderr=log,
        ) as served,
    ):  # fmt: skip
        try:
            eventually(lambda: served.poll() is not None or call(f"{url}/readyz"))
            assert served.poll() is None, (shop / "log").read_text()
            installed.ran("recompose", "push", "shop_prices", "--value", '"tea"', "--url", url, cwd=shop)
            (row,) = eventually(lambda: call(f"{url}/results/shop_prices"))
            assert (row["value"]["price"], row["value"]["service"]) == (3, f"{shop}/service/__init__.py")
            assert call(f"{url}/slo") == []
            write("{source: push, slo: p95<=400ms}")
            (slo,) = eventually(lambda: call(f"{url}/slo"))
            assert (slo["app"], slo["target"]) == ("shop_prices", 400)
        finally:
            served.terminate()


def test_nothing_but_one_package_is_installed(installed: Installed, tmp_path: Path) -> None:
    told = f"import importlib.util as i; print([r for r in {sorted(names.ROOMS)} if i.find_spec(r)])"
    assert installed.ran("python", "-c", told, cwd=tmp_path).strip() == "[]"
    same = (
        "import recompose; from recompose import App as a\n"
        "from apps.contract import App as b; from recompose.apps.contract import App as c\n"
        "print(a is b is c, a.__module__)"
    )
    assert installed.ran("python", "-c", same, cwd=tmp_path).strip() == "True recompose.apps.contract"


def test_what_another_package_of_that_name_has_is_its_own(installed: Installed, shop: Path) -> None:
    (shop / "apps" / "frames.py").write_text("")
    told = (
        "import os, recompose, apps, apps.contract, apps.frames, apps.catalog.models\n"
        "print(*(each.__file__.startswith(os.getcwd())\n"
        "        for each in (apps, apps.frames, apps.catalog.models, apps.contract)), apps.contract.__name__)\n"
        "try:\n    import apps.nothing\nexcept ModuleNotFoundError as error:\n    print(error)"
    )
    lines = installed.ran("python", "-c", told, cwd=shop).splitlines()
    assert lines == ["True True True False recompose.apps.contract", "No module named 'apps.nothing'"]


# --- how it is made ---------------------------------------------------------------------------------------------------


def test_in_the_tree_the_long_names_are_the_same_modules() -> None:
    from recompose.apps import contract as the_same

    from apps import contract
    from recompose import App

    assert the_same is contract
    assert App is contract.App
    assert contract.__spec__.name == "apps.contract"


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("from apps.contract import App\n", "from recompose.apps.contract import App\n"),
        ("import compositions\n", "from recompose import compositions\n"),
        ("import apps.contract as c\n", "import recompose.apps.contract as c\n"),
        (
            "def f():\n    from service import (\n        cli,\n    )\n",
            "def f():\n    from recompose.service import (\n        cli,\n    )\n",
        ),
        ("import appserver, json\nx = 'from apps import y'\n", "import appserver, json\nx = 'from apps import y'\n"),
        ("from recompose.live import LiveRun\n", "from recompose.live import LiveRun\n"),
    ],
)
def test_imports_are_renamed_and_nothing_else(said: str, says: str) -> None:
    assert hatch_build.renamed(said, names.ROOMS) == says


@pytest.mark.parametrize("said", ["import apps.contract\n", "import json, apps\n", "from  apps import x\n"])
def test_what_cannot_be_renamed_ends_the_build(said: str) -> None:
    with pytest.raises(ValueError, match=r"line 1: .*(cannot be rewritten|must be written as)"):
        hatch_build.renamed(said, names.ROOMS)


# --- types ------------------------------------------------------------------------------------------------------------


WRONG = """
from recompose import App, Stage, run

class Words(App):
    name = "words"
    stages = (Stage("split", kind="statefull"),)

live = run(Words, slo=400, rat=3)
for result in live:
    result.serial.upper()
live.stop(drain="yes")
"""


@pytest.mark.long
def test_a_type_checker_reads_what_is_installed(installed: Installed, tmp_path: Path) -> None:
    """The script of the documentation has no fault; each wrong use is one, with its line."""
    (tmp_path / "wrong.py").write_text(WRONG)
    shutil.copy(ROOT / "docs" / "scripts" / "shout.py", tmp_path / "shout.py")
    python = str(installed.bin / "python")
    checker = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable", python]
    command = [*checker, "shout.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, env=untouched(), capture_output=True, text=True, check=False)
    assert sorted(re.findall(r"^(\w+\.py):(\d+): error: .+ \[([\w-]+)\]", done.stdout, re.MULTILINE)) == [
        ("wrong.py", "10", "attr-defined"),
        ("wrong.py", "11", "arg-type"),
        ("wrong.py", "6", "arg-type"),
        ("wrong.py", "8", "arg-type"),
        ("wrong.py", "8", "call-arg"),
    ]
