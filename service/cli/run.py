"""``recompose run``: one run in one command, in this process, without a daemon."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from apps import registry
from control.decisions import Mode
from control.strategies import STRATEGIES
from profiler.slo import Slo, parse_slo
from service import logs
from service.bodies.base import plain
from service.bodies.results import Summary
from service.bodies.spec import InputSpec, RunSpec, SourceSpec, TelemetrySpec
from service.bodies.status import Status
from service.cli import render
from service.cli.check import apps_option
from service.cli.endings import CODES, ending
from service.cli.prints import prints_on_stderr
from service.cli.slo_options import threshold_option
from service.cli.texts import as_usage, parse_options, parse_pattern, parse_rate, parse_sink, parse_source
from service.running.patience import Patient
from service.running.requests import ReadStatus, ReadSummary, Start, Stop
from service.running.runner import Runner
from service.running.shipped import choices_for

LOOK_S = 0.25


@click.command(help=f"Runs APP once: its data set once through, or --items, or --duration.\n\n{CODES}")
@click.argument("app")
@click.option(
    "--slo", callback=as_usage(parse_slo, "--slo"), help="latency=400ms, p95=400ms, throughput=10/s or input_rate."
)
@threshold_option
@click.option("--composition", help="The first one; without --slo the only one.")
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), default="model", show_default=True)
@click.option("--rate", callback=as_usage(parse_rate, "--rate"), help="Items a second; default: as they are taken.")
@click.option("--pattern", callback=as_usage(parse_pattern, "--pattern"), help="wave:period=60,min=1,max=10, binary: …")
@click.option("--items", type=click.IntRange(1), help="End after this many items.")
@click.option("--duration", type=click.FloatRange(0, min_open=True), help="End after this many seconds.")
@click.option("--source", callback=as_usage(parse_source, "--source"), help="KIND:PATH; default: the app's own data.")
@click.option("--sink", callback=as_usage(parse_sink, "--sink"), help="FORMAT:PATH, a table that Spark writes.")
@click.option("-o", "--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of the app.")
@click.option("--out", type=click.Path(dir_okay=False), help="Results as JSON lines, in input order.")
@click.option("--telemetry", type=click.Path(file_okay=False), help="Folder for telemetry; see recompose report.")
@click.option("--dead-letters", type=click.Path(dir_okay=False), help="Items that failed, with their tracebacks.")
@apps_option
@click.option("--fail-on-slo", is_flag=True, help="Exit code 5 when the SLO is not met at the end.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
@click.option("--pool", type=click.Choice(["ray", "local"]), default="ray", hidden=True)
def run(as_json: bool, fail_on_slo: bool, slo: Slo | None, threshold: float, **given: Any) -> None:
    logs.configure("warning")
    spec = _spec(slo=replace(slo, threshold=threshold) if slo else None, **given)
    with prints_on_stderr(spec.pool):
        runner = Runner(spec)
        interrupted = _follow(runner, as_json)
    summary = runner.ask(ReadSummary())
    if as_json:
        click.echo(json.dumps(plain(summary)))
    else:
        render.console().print(render.summary_table(summary_rows(summary)))
    if summary.first_error:
        click.echo(f"The first item that failed, {summary.first_error}", err=True)
    if told := ending(summary, interrupted=interrupted, fail_on_slo=fail_on_slo):
        raise told


def _spec(
    app: str,
    slo: Slo | None,
    composition: str | None,
    rate: InputSpec | None,
    pattern: InputSpec | None,
    items: int | None,
    duration: float | None,
    source: SourceSpec | None,
    options: tuple[str, ...],
    apps_dirs: tuple[Path, ...],
    out: str | None,
    dead_letters: str | None,
    telemetry: str | None,
    **rest: Any,
) -> RunSpec:
    if rate and pattern:
        raise click.UsageError("--rate and --pattern exclude each other")
    source = source or SourceSpec()
    if source.of.pushed:
        raise click.UsageError("source push needs the daemon; start it with recompose serve")
    values = parse_options(options)
    instance = registry.create(app, values, apps_dirs)
    return RunSpec(
        app=app,
        apps_dirs=tuple(str(each.resolve()) for each in apps_dirs),
        options=values,
        source=source.model_copy(update={"loop": items is not None or duration is not None}),
        input=rate or pattern or InputSpec(),
        compositions=choices_for(instance),
        composition=composition,
        slo=slo,
        mode=Mode.PINNED if composition is not None and slo is None else Mode.AUTO,
        items=items,
        duration_s=duration,
        out_path=out,
        dead_letters_path=dead_letters,
        telemetry=TelemetrySpec(folder=telemetry) if telemetry else None,
        **rest,
    )


def _follow(runner: Runner, quiet: bool) -> bool:
    """Until the end of the run; the first Ctrl-C or SIGTERM drains, the second does not wait for that.

    Returns whether there was one.
    """
    interrupted = 0

    def interrupt(*_: Any) -> None:
        nonlocal interrupted
        interrupted += 1
        if interrupted > 1:
            raise KeyboardInterrupt
        threading.Thread(target=runner.ask, args=(Stop(),), daemon=True).start()

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    runner.ask(Start())
    asked = Patient(runner)
    try:
        with _progress(quiet, runner.spec.items) as show:
            while not runner.wait(LOOK_S):
                show(asked.ask(ReadStatus()))
    finally:
        runner.ask(Stop(drain=False, timeout_s=5))
        for number, handler in before.items():
            signal.signal(number, handler)
    return bool(interrupted)


class _progress:  # noqa: N801 - used as a function
    """A progress line on a terminal's stderr; nothing elsewhere."""

    def __init__(self, quiet: bool, total: int | None) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        output = render.console(stderr=True)
        self._bar = Progress(*columns, console=output, transient=True, disable=quiet or not output.is_terminal)
        self._task = self._bar.add_task("starting", total=total)

    def __enter__(self) -> Callable[[Status], None]:
        self._bar.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _show(self, status: Status) -> None:
        composition = status.composition.name if status.composition else "–"
        rate = render.number(status.throughput_per_s, "/s")
        latency = render.number(status.latency_ms.mean, " ms")
        delivered = status.items.delivered
        text = f"{status.state}: composition {composition}, {delivered:,} items, {rate}, {latency}"
        self._bar.update(self._task, description=text, completed=delivered)


def summary_rows(summary: Summary) -> list[tuple[str, str]]:
    items = dict(summary.items) if summary.items else {}
    settle = ", ".join(render.number(each, " s") for each in summary.settle_s)
    share = summary.slo_met_share
    return [
        ("items", ", ".join(f"{name} {count:,}" for name, count in items.items())),
        ("time", render.number(summary.elapsed_s, " s")),
        ("throughput, without the start", render.number(summary.throughput_per_s, "/s", 2)),
        ("latency, mean at the end", render.number(summary.latency_ms, " ms")),
        ("workers", "–" if summary.workers is None else str(summary.workers)),
        ("compositions used", ", ".join(summary.compositions_used)),
        ("switches", str(summary.switches)),
        ("time to settle", settle or "–"),
        ("SLO met", "–" if share is None else f"{share:.0%} of the time"),
    ]
