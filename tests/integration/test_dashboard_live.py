"""The dashboard on a real daemon: real workers, real decisions."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, DRIVER, Browser
from dashboard_rig import page
from selenium.webdriver import Chrome as Driver

from lab.benchmarks.daemon import Daemon, daemon

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver: make browser")
SLO, MODE, INPUT, RUN = "#act-slo", "#act-mode", "#act-input", "#act-run"
STEADY = '{"compute": "wait", "total_ms": 120}'
"""Stages of 40 ms that sleep: what else the machine does is small beside them."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Daemon]:
    with daemon(tmp_path) as up:
        yield up


def test_a_run_from_start_to_adaptation_by_hand(served: Daemon, chromium: Driver) -> None:
    """Everything through the page: start, SLO, a rate that rises, the switch, its decision, a pin."""
    with page(f"http://127.0.0.1:{served.port}", chromium) as seen:
        seen.open("#/app/synthetic")
        seen.sees("Nothing runs.", ".notices")
        seen.write("Rate", "10", RUN)
        seen.choose("First composition", "1 · Seq(f1)-Seq(f2)-Seq(f3)", RUN)
        seen.write("Options, as JSON", STEADY, RUN)
        seen.press("Start", RUN)
        seen.sees("stable", ".head", seconds=60)
        seen.until(lambda: seen.texts(".tile:nth-child(2) b")[0] not in ("–", "0.0"), "a throughput")

        seen.unfold(SLO)
        seen.choose("Keep", "throughput", SLO)
        seen.field("at the input rate", SLO).click()
        seen.press("Set SLO", SLO)
        seen.sees("SLO met", ".head", seconds=40)
        marks = len(seen.all(".switch-mark"))  # none, but where the machine is busy with other things
        seen.unfold(INPUT)
        seen.write("Rate", "34", INPUT)
        seen.press("Change input", INPUT)
        seen.until(lambda: len(seen.all(".drawing .copy")) == 3, "composition 7: three groups of two", 60)
        seen.until(lambda: len(seen.all(".switch-mark")) > marks, "the mark of the switch")

        seen.sees("→ 7", ".decisions")  # from 1, but for a detour on a machine that is busy with other things
        _open_decision(seen, "→ 7")
        names = [str(number) for number in range(1, 8)]
        seen.until(lambda: sorted(seen.texts(".decisions details[open] tbody th b")) == names, "every candidate")
        seen.sees("expected late", ".decisions details[open] summary")
        seen.sees("Gap in the output", ".decisions details[open] .facts")
        seen.sees("Last resize")  # other numbers of replicas alone: nothing was drained

        seen.press("Predict", ".what-if")
        seen.sees("The manager would choose 7", ".what-if")

        seen.unfold(MODE)
        seen.choose("The manager", "keeps one composition", MODE)
        seen.choose("Composition", "4 · Seq(f1)-Seq(f2)-Par(f3)", MODE)
        seen.press("Set mode", MODE)
        seen.until(lambda: len(seen.all(".drawing .copy")) == 1, "composition 4", 40)
    served.send("POST", "/apps/synthetic/stop", {})


def _open_decision(seen: Browser, move: str) -> None:
    def opened() -> bool:
        seen.run("for (const it of document.querySelectorAll('.decisions .episode > details')) it.open = true")
        found = next(each for each in seen.all(".decisions .decision summary") if move in each.text)
        seen.run("arguments[0].scrollIntoView({block: 'center'}); arguments[0].parentNode.open = true", found)
        return True

    seen.until(opened, f"the decision {move}")
