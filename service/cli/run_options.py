"""Options of ``recompose run`` and ``recompose start``, and their conversion to the spec of a run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from apps import registry
from apps.contract import App
from compositions.batching import MOST_BYTES, MOST_LINGER_MS
from compositions.model import Composition
from compositions.notation import parse
from control.decisions import Mode
from control.strategies import DEFAULT, FORMER, STRATEGIES, present_name
from profiler.slo import Slo, parse_slo
from service.cli import texts
from service.cli.check import apps_option
from service.runner.validation.resolution import choices_for
from service.schemas.spec import BatchingSpec, DurabilityName, Ending, RunSpec, SourceSpec, TelemetrySpec

Options = tuple[Callable[[Any], Any], ...]


class _Strategies(click.Choice[str]):
    """Replaces the name of a removed strategy, with a warning."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == FORMER:
            click.echo(f"strategy {FORMER} was removed, {DEFAULT} runs instead; 0.3 will refuse the name", err=True)
        return super().convert(present_name(value), param, ctx)


def _slo_text(text: str) -> str:
    """Return the text unchanged. Raises: SloError if it is not an objective."""
    parse_slo(text)
    return text


STREAM: Options = (
    texts.app_argument,
    click.option("--slo", multiple=True, type=texts.Parsed(_slo_text),
                 help="Objective: latency=400ms, p95=400ms, share95=400ms (for 95 % of items), throughput=10/s …; "
                      "if several are given, all must be met."),
    texts.budget_option,
    texts.threshold_option,
    click.option("--composition",
                 help="Composition at the start, by name or notation such as Par*4(a,b); kept if there is no --slo."),
    click.option("--strategy", type=_Strategies(list(STRATEGIES)), default=DEFAULT, help="Strategy for compositions."),
    click.option("--rate", type=texts.Parsed(texts.parse_rate),
                 help="Input rate in items/s (default: as fast as the app accepts them)."),
    click.option("--pattern", type=texts.Parsed(texts.parse_pattern),
                 help="Input pattern, such as wave:period=60,min=1,max=10; or custom:MODULE:FUNCTION "
                  "for a function from an apps folder."),
    click.option("--batch", type=texts.Parsed(texts.parse_batch),
                 help="Bundle size: 64, pid:kp=10, slo-batch …; auto (default) enlarges it if this raises throughput."),
    click.option("--batch-bytes", type=click.IntRange(1, MOST_BYTES), help="Maximum bytes per bundle (default 4 MiB)."),
    click.option("--linger-ms", type=click.FloatRange(0, MOST_LINGER_MS),
                 help="Maximum time to wait for a bundle to fill, in milliseconds (default 0)."),
    click.option("--items", type=texts.Parsed(texts.parse_amount),
                 help="Number of items after which the run ends, or an input class of the app, such as small or huge."),
    click.option("--duration", type=texts.POSITIVE, help="Time after which the run ends, in seconds."),
    click.option("--source", type=texts.Parsed(texts.parse_source),
                 help="Source, as KIND:PATH or URL (default: the app's own data)."),
    click.option("--sink", type=texts.Parsed(texts.parse_sink),
                 help="Sink: parquet:FOLDER, sql:URL, redis://…, kafka://…, nats://…, mqtt://…, amqp://…, https://…, "
                      "or a table that Spark writes, spark+FORMAT:PATH."),
    texts.app_options,
)  # fmt: skip
"""Options of both ``recompose run`` and ``recompose start``."""
RUN: Options = (
    *STREAM,
    click.option("--in-memory", is_flag=True, help="Read the whole data set before the first item is processed."),
    click.option("--out", type=click.Path(dir_okay=False), help="File for results as JSON lines, in input order."),
    click.option("--telemetry", type=click.Path(file_okay=False), help="Folder for telemetry."),
    click.option("--dead-letters", type=click.Path(dir_okay=False),
                 help="File for items that failed, with their tracebacks."),
    apps_option,
    click.option("--fail-on-slo", is_flag=True, help="Exit with code 5 if the SLO is not met at the end."),
    click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
    click.option("--pool", type=click.Choice(["ray", "local"]), default="ray", hidden=True),
)  # fmt: skip
START: Options = (
    *STREAM,
    click.option("--overload", type=click.Choice(["block", "shed"]),
                 help="What to do when input is faster than the app: block the source or drop (shed) items "
                      "(default block)."),
    click.option("--durability", type=click.Choice(get_args(DurabilityName)),
                 help="Guarantee if the runner crashes: none, restart or exactly-once (default none)."),
    click.option("--mode", type=click.Choice([mode.value for mode in Mode]),
                 help="Mode of the manager; with observe, it decides but does not act (default auto)."),
)  # fmt: skip


def _source(given: SourceSpec, *, in_memory: bool) -> SourceSpec:
    if given.of.pushed:
        raise click.UsageError("source push needs the daemon; start it with recompose serve")
    if in_memory and given.kind != "replay":
        raise click.UsageError(f"--in-memory is for source replay, not for {given.kind}")
    return given.model_copy(update={"options": {"in_memory": True}}) if in_memory else given


def _choices(app: App, wanted: str | None) -> tuple[Composition, ...]:
    """Return the compositions of an app, and ``wanted`` if it is a notation instead of a name."""
    known = choices_for(app)
    if wanted is None or wanted in {each.name for each in known} or not re.match(r"(Seq|Par|Dyn)\b", wanted):
        return known
    own = parse(wanted, app.stages, app=app.name, name=wanted)
    return (*(each for each in known if each.shape != own.shape), own)


def fields_of(given: dict[str, Any]) -> dict[str, Any]:
    """Move the options of a start body out of ``given``, and return its fields. Raises: click.UsageError."""
    rate, pattern = given.pop("rate"), given.pop("pattern")
    if rate and pattern:
        raise click.UsageError("--rate and --pattern exclude each other")
    bundle = {"bytes": given.pop("batch_bytes"), "linger_ms": given.pop("linger_ms"), **(given.pop("batch") or {})}
    limits = {name: value for name, value in bundle.items() if value is not None}
    fields = {
        "options": given.pop("options"),
        "input": rate or pattern,
        "batching": BatchingSpec(**limits) if limits else None,
        **{name: given.pop(name) for name in ("source", "sink", "composition", "strategy")},
    }
    return {name: value for name, value in fields.items() if value}


def spec_of(
    app: str, slo: Slo | None, items: texts.Amount | None, apps_dirs: tuple[Path, ...], in_memory: bool, **given: Any
) -> RunSpec:
    """Return the spec of a run in this process."""
    fields, duration = fields_of(given), given.pop("duration")
    source, composition = fields.pop("source", SourceSpec()), fields.get("composition")
    instance = registry.create(app, fields.get("options", {}), apps_dirs)
    count = None if items is None else texts.items_of(app, instance.input_classes, items)
    folder = given.pop("telemetry")
    telemetry = TelemetrySpec(folder=folder) if folder else None
    return RunSpec(
        app=app,
        apps_dirs=tuple(str(each.resolve()) for each in apps_dirs),
        source=_source(source, in_memory=in_memory).looping(items is not None or duration is not None),
        compositions=_choices(instance, composition),
        slo=slo,
        mode=Mode.PINNED if composition is not None and slo is None else Mode.AUTO,
        ending=Ending(count, duration, given.pop("out"), given.pop("dead_letters"), telemetry),
        **fields,
        **given,
    )
