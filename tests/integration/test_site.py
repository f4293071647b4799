"""The documentation as a site: every link leads somewhere, and its search finds the page that answers."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

import pytest
from browser import CHROMIUM, DRIVER, browser
from markdown import ROOT
from selenium import webdriver

import recompose

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(300)]
QUESTIONS = {
    **dict.fromkeys(("rate of a broker", "sources", "sinks"), "docs/connect/"),
    **dict.fromkeys(("keyed stage in a script", "what may a result be"), "docs/start/scripts/"),
    **{"windows": "docs/guide/event-time/", "GPU memory for a stage": "docs/guide/app-authors/"},
    **{"objectives": "docs/guide/objectives/", "durability": "docs/guide/durability/"},
    **{"default SQL table": "docs/connect/sql/", "exit codes": "docs/operate/command-line/"},
    "roll out a new version of an app": "docs/operate/upgrade/",
}
"""What a new user asked of the documentation, in his words, and the page that answers it."""
MISSES = 1
"""``keyed stage in a script`` leads to the reference of stages first, and to the page about scripts second."""
FIRST = "return document.querySelector('.md-search-result__item a')?.getAttribute('href')"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    """Closing waits for the last request."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "versions.json").write_text('[{"version": "0.1.0", "title": "0.1.0", "aliases": ["latest"]}]')
    command = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), str(folder)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_site_is_built_without_a_broken_link(site: Path) -> None:
    """Every public name has its docstring there, and every route of REST."""
    python = (site / "latest" / "reference" / "python" / "index.html").read_text()
    described = {name for name in recompose.__all__ if re.search(rf'id="[\w.]+\.{name}"', python)}
    assert set(recompose.__all__) - described == {"END", "Slots", "Timers"}, "a constant and two aliases of types"
    assert all(getattr(recompose, name).__doc__ for name in described)
    assert "POST /apps/{app}/start" in (site / "latest" / "reference" / "rest" / "index.html").read_text()


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium (make browser)")
def test_a_search_finds_the_page_that_answers_first(address: str, chromium: webdriver.Chrome) -> None:
    with browser(address, chromium) as page:
        found = {}
        for question in QUESTIONS:
            page.open("404.html")  # a question alone would not load the page anew
            page.open(f"latest/?q={quote(question)}")
            found[question] = str(page.until(lambda: page.run(FIRST), question))
        wrong = {question: url for question, url in found.items() if f"/latest/{QUESTIONS[question]}?" not in url}
        assert len(wrong) <= MISSES, wrong


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium (make browser)")
def test_the_page_offers_all_versions(address: str, chromium: webdriver.Chrome) -> None:
    with browser(address, chromium) as page:
        page.open()
        page.until(lambda: page.run("return location.pathname") == "/latest/", "the latest version")
        page.until(lambda: len(page.all(".md-version__link")) == 2, "two versions")
        links = "[...document.querySelectorAll('.md-version__link')]"
        assert page.run(f"return {links}.map((each) => each.textContent.trim())") == [version("recompose"), "0.1.0"]
