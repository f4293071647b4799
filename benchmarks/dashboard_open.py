"""The page in Chromium, beside a daemon with many apps: what the benchmarks of the dashboard have in common.

Needs Chromium and its driver (``make browser``).
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver

from benchmarks.daemon import daemon
from benchmarks.harness import metadata

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-precise-memory-info")
LOADED = ("-m", "benchmarks.dashboard_load")
FIRST_FIGURES = "return performance.getEntriesByName('recompose-first').map((mark) => mark.startTime)"


@dataclass(frozen=True)
class Opened:
    driver: Any
    overview: str
    names: list[str]

    @property
    def of_app(self) -> str:
        return f"{self.overview}#/app/{self.names[0]}"

    @property
    def pages(self) -> dict[str, str]:
        return {"overview": self.overview, "page of an app": self.of_app}

    def first_s(self, url: str) -> float:
        """From asking for the page to its first figures."""
        self.driver.get("about:blank")
        self.driver.get(url)
        until = time.monotonic() + 60
        while not (found := self.driver.execute_script(FIRST_FIGURES)):
            if time.monotonic() > until:
                raise TimeoutError(f"no figures on {url} within 60 s")
            time.sleep(0.05)
        return float(found[0]) / 1e3


def options(text: str | None) -> argparse.ArgumentParser:
    """Of the command line, those that every benchmark of the page has."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", type=int, default=30)
    return parser


def app_names(count: int) -> list[str]:
    return [f"app{number:02d}" for number in range(count)]


@contextmanager
def opened(folder: Path, names: Sequence[str], *arguments: str) -> Iterator[Opened]:
    """``arguments``: more ones of the daemon."""
    print(*(f"{name}: {told}" for name, told in metadata().items()), sep="\n", flush=True)
    with (
        daemon(folder, "--apps", ",".join(names), *arguments, program=LOADED) as loaded,
        _chromium() as driver,
    ):
        driver.set_script_timeout(90)
        yield Opened(driver, f"http://127.0.0.1:{loaded.port}/", list(names))


@contextmanager
def _chromium() -> Iterator[Any]:
    chosen = webdriver.ChromeOptions()
    chosen.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, "--window-size=1440,900"):
        chosen.add_argument(flag)
    driver = webdriver.Chrome(options=chosen, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()
