"""Fixtures of several files: the image, built once a session, and the dashboard of a daemon that plays scenes."""

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("unit", "contract")]  # written_telemetry, rig

from browser import Browser
from browser import chromium as started_chromium
from dashboard_rig import SceneDaemon, page, scenes
from image_steps import ROOT, Image, Stage, build, build_context, build_wheel, parse_dockerfile
from selenium.webdriver import Chrome as Driver

from service import logs


@pytest.fixture(scope="session")
def stages() -> list[Stage]:
    return parse_dockerfile((ROOT / "Dockerfile").read_text())


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once a session from what the image gets."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    build_context(source)
    build_wheel(source, folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def image(stages: list[Stage], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Built once a session, as the Dockerfile's first stage says; takes one to two minutes."""
    root, home = tmp_path_factory.mktemp("image"), Path(tempfile.mkdtemp(prefix="rc-"))
    build(stages[0], root)
    if os.geteuid() == 0:
        os.chown(home, pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
    yield Image(root / "opt" / "recompose", home)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A browser that lends each test a tab as good as a browser of its own (``page``)."""
    with started_chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def logging_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets logging up for a process of its own; this one is shared with other tests."""
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[SceneDaemon]:
    with scenes(tmp_path) as playing:
        yield playing


@pytest.fixture
def seen(daemon: SceneDaemon, chromium: Driver, request: pytest.FixtureRequest) -> Iterator[Browser]:
    """The pages of the daemon; ``refused`` statuses come as the fixture's parameter."""
    with page(daemon.url, chromium, getattr(request, "param", ())) as opened:
        yield opened


@pytest.fixture
def ferret(daemon: SceneDaemon, seen: Browser) -> Browser:
    """The page of a running Ferret."""
    daemon.ferret()
    seen.open("#/app/ferret")
    seen.sees("rank", ".drawing")
    return seen
