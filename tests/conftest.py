"""Hold every test to this: no error logged unasked, nothing left running, and no silent skip where data is."""

import gc
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from compositions import logger
from tests.support.examples import SHARE, examples

ROOT = Path(__file__).parents[1]
LEAK_CHECKED = [ROOT / "tests" / name for name in ("contract", "integration", "faults")]
TOGETHER = {"tests/contract": "one Ray", "tests/datapipe": "one session of Spark"}
TOGETHER |= {f"tests/contract/test_{name}.py": "one RabbitMQ" for name in ("places", "queues", "sinks")}
TOGETHER["tests/datapipe/test_live.py"] = "Spark's own drivers: half of the folder's time"
"""Folders and files that run in one process, one after the other, and what they share there."""
GRACE_S = 30.0
"""Ray takes seconds to end a process, and more than ten where the machine is busy."""

settings.register_profile("house", examples(100))
settings.load_profile("house")

os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
"""A JVM of the tests lives for seconds: what its second compiler takes for code that then runs faster, it never gives
back."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes a minute or more; its file begins first")
    config.addinivalue_line("markers", "long: runs before a release (make test-long), and not for every change")
    config.addinivalue_line("markers", "logs_errors(text): an error with this text in it may be logged")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests that take long begin first: what takes long at the end has nothing beside it. With all of their
    examples, tests of properties are of lane ``long`` too."""
    for item in items:
        if SHARE >= 1 and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("long")
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


class ByGroup(LoadFileScheduling):
    """Distribute files to processes; files that share something go to one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return TOGETHER.get(file) or TOGETHER.get(file.rpartition("/")[0], file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroup | None:
    return ByGroup(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="module", autouse=True)
def ray_ends_with_its_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ray takes over the environment of who starts it, so that one for all modules would know the first one's only.
    The contract's files start it in one environment, and share it."""
    if request.path.parent == ROOT / "tests" / "contract":
        yield
        return
    _end_ray()
    yield
    _end_ray()


def _end_ray() -> None:
    if _ray_is_connected():
        sys.modules["ray"].shutdown()


def _ray_is_connected() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


# --- data -------------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    return _no_skip_for_data((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    return _no_skip_for_data((yield))


def _no_skip_for_data(report: Any) -> Any:
    """Where the data is said to be (``RECOMPOSE_REQUIRE_DATA``), a test that did not find it has failed."""
    if report.skipped and "RECOMPOSE_DATA" in str(report.longrepr) and os.environ.get("RECOMPOSE_REQUIRE_DATA"):
        report.outcome = "failed"
    return report


# --- errors -----------------------------------------------------------------------------------------------------------


class _Errors(logging.Handler):
    """Collects errors of both kinds of loggers. It is a handler of the one and a processor of the other."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.name}: {record.getMessage()}")

    def __call__(self, logger: Any, method: str, event: Any) -> Any:
        if method in ("error", "exception", "critical"):
            self.texts.append(str(event))
        return event


@pytest.fixture(autouse=True)
def no_errors_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test in whose process an error was logged. ``structlog.testing.capture_logs`` keeps what it captures."""
    expected = [mark.args[0] for mark in request.node.iter_markers("logs_errors")]
    errors, processors = _Errors(), structlog.get_config()["processors"]
    was_set_up, in_a_program = structlog.is_configured(), logger._in_a_program
    logging.getLogger().addHandler(errors)
    processors.insert(0, errors)
    yield
    logging.getLogger().removeHandler(errors)
    processors[:] = [processor for processor in processors if processor is not errors]
    logger._in_a_program = in_a_program  # of a script that ran in this process
    if not was_set_up:
        structlog.reset_defaults()
    unexpected = [text for text in errors.texts if not any(known in text for known in expected)]
    assert not unexpected, f"logged errors that the test does not expect: {unexpected}"


# --- leaks ------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """Threads, child processes and listening sockets of a test end with it. What wider fixtures started may stay."""
    if not any(folder in request.path.parents for folder in LEAK_CHECKED):
        yield
        return
    before, had_ray = [kind() for kind in KINDS.values()], _ray_is_connected()
    yield
    for (name, kind), known in zip(KINDS.items(), before, strict=True):
        if name == "sockets" and _ray_is_connected() != had_ray:
            continue  # the module's Ray came up in this test and listens from now on
        left = _left(kind, known)
        assert not left, f"{name} that the test left running: {sorted(left.values())}"


def _left(kind: Callable[[], dict[Any, str]], known: dict[Any, str]) -> dict[Any, str]:
    until_s = time.monotonic() + GRACE_S
    while (left := {key: text for key, text in kind().items() if key not in known}) and time.monotonic() < until_s:
        gc.collect()
        time.sleep(0.05)
    return left


def _threads() -> dict[Any, str]:
    return {each.ident: each.name for each in threading.enumerate() if not _is_shared(each)}


def _is_shared(thread: threading.Thread) -> bool:
    """Those of Ray and those that watch it, which stay while it is connected, and those that C code made known to
    Python by calling it."""
    modules = [type(thread).__module__, getattr(getattr(thread, "_target", None), "__module__", "")]
    if thread.name in ("ray-guard", "machines"):
        return True
    return isinstance(thread, threading._DummyThread) or any(module.startswith("ray.") for module in modules)


def _processes() -> dict[Any, str]:
    """Without Ray's own; a worker of Ray's that is in use is called ``ray::…`` after what it runs."""
    found: dict[Any, str] = {}
    for child in psutil.Process().children(recursive=True):
        try:
            command = " ".join(child.cmdline())
            if child.status() != psutil.STATUS_ZOMBIE and not _is_rays(command) and not _is_of_another(command):
                found[child.pid] = command[:120]
        except psutil.NoSuchProcess:
            pass  # it ended while we looked
    return found


def _is_of_another(command: str) -> bool:
    """Chromium's own processes come and go; what is left running is the browser."""
    return "chromium --type=" in command or "resource_tracker" in command


def _is_rays(command: str) -> bool:
    """Its processes, what ``ray_own`` puts in the place of some, and actors of the contract that wait for a worker."""
    return "/ray/" in command or command.startswith("ray::IDLE") or command.strip() in ("cat", "ray::Kept")


def _sockets() -> dict[Any, str]:
    """Listening TCP sockets, and Unix sockets with a path."""
    found: dict[Any, str] = {}
    for each in psutil.Process().net_connections("all"):
        if each.laddr and (each.status == psutil.CONN_LISTEN or isinstance(each.laddr, str)):
            found[each.laddr] = str(each.laddr)
    return {key: text for key, text in found.items() if "/ray/" not in text}


KINDS = {"threads": _threads, "processes": _processes, "sockets": _sockets}
