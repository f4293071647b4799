"""A real run leaves telemetry; its report is opened in a real browser."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dashboard_rig import page

from datapipe.report.build import PLOTS, summary_rows
from datapipe.report.data import Period, load
from profiler.slo import Slo
from service.cli import main
from service.runner.rpc.requests import ReadDecisions, ReadStatus, ReadSummary, Start, Stop
from service.runner.runner import Runner
from service.schemas.base import plain
from service.schemas.spec import InputSpec, RunSpec, TelemetrySpec

ITEMS = 1200


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Runner]:
    """Stages that wait, at a rate that one worker a stage cannot take: there is something to decide."""
    folder = tmp_path_factory.mktemp("telemetry")
    spec = RunSpec(
        app="synthetic", pool="local", options={"compute": "wait"}, input=InputSpec(rate_per_s=150),
        slo=Slo("latency", 100.0), items=ITEMS, telemetry=TelemetrySpec(folder=str(folder)),
        switch_style="drain",  # with another, more replicas alone are a resize, which drains nothing
        settings={"outcome_s": 0.5},
    )  # fmt: skip
    runner = Runner(spec)
    runner.ask(Start())
    assert runner.wait(120)
    runner.ask(Stop())
    return folder, runner


def test_every_item_is_told_once_and_nothing_is_lost(run: tuple[Path, Runner]) -> None:
    folder, runner = run
    data = load(folder, "synthetic", Period())
    assert sorted(data.items.column("serial").to_pylist()) == list(range(ITEMS))
    stages = data.items.column("stages").to_pylist()
    assert all([stage["stage"] for stage in each] == ["f1", "f2", "f3"] for each in stages)
    assert all(stage["wall_ns"] > 0 for each in stages for stage in each)
    arrived, delivered = (data.seconds(data.items, name) for name in ("arrived", "delivered"))
    assert (delivered > arrived).all()
    assert runner.ask(ReadSummary()).items.delivered == ITEMS
    status = runner.ask(ReadStatus())
    assert status.resources.telemetry.lost == 0
    assert [each["id"] for each in data.decisions] == [each.id for each in runner.ask(ReadDecisions(0, 100))]
    assert data.decisions[-1]["candidates"] == plain(runner.ask(ReadDecisions(0, 100))[-1].candidates)
    told = dict(summary_rows(data))
    assert told["objective"] == "latency 100 ms (violated beyond 120 ms)"
    assert told["items"].startswith("1,200 delivered, ")
    assert told["met"].endswith("% of the time with a verdict")
    assert sum(each["error"] is None for each in data.switches) == status.changes.switches > 0


def test_the_report_in_a_browser(run: tuple[Path, Runner], tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    options = ["--from", str(run[0]), "--out", str(report), "--png", str(tmp_path / "png")]
    result = CliRunner().invoke(main, ["report", "synthetic", *options])
    assert result.exit_code == 0, result.stderr
    with page(f"file://{tmp_path}", tmp_path / "profile") as seen:
        seen.open("report.html")
        drawn: list[Any] = seen.run(COUNT)
        assert {name: bool(count) for name, count in drawn} == {name: True for name, *_ in PLOTS}
        assert seen.all("#decisions ~ details table tbody tr")
    assert sorted(path.stem for path in (tmp_path / "png").iterdir()) == sorted(name for name, *_ in PLOTS)
    assert report.stat().st_size < 10e6


COUNT = """
return [...document.querySelectorAll("h2[id]")].filter((head) => head.id !== "decisions").map((head) => {
  let next = head.nextElementSibling
  while (next && next.tagName !== "H2" && next.tagName !== "FIGURE") next = next.nextElementSibling
  if (!next || next.tagName !== "FIGURE") return [head.id, 0]
  const shapes = [...next.querySelectorAll("[id^=data] path, path[id^=data], [id^=data] use")]
  return [head.id, shapes.filter((shape) => shape.getBoundingClientRect().width > 0).length]
})
"""
