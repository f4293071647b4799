"""What the options of ``recompose run`` ask for, as the spec of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from apps import registry
from apps.input.classes import Amount, items_of
from control.decisions import Mode
from profiler.slo import Slo
from service.bodies.spec import BatchingSpec, InputSpec, RunSpec, SourceSpec, TelemetrySpec
from service.cli.texts import parse_options
from service.running.checking.shipped import choices_for


def spec_of(
    app: str,
    slo: Slo | None,
    composition: str | None,
    rate: InputSpec | None,
    pattern: InputSpec | None,
    items: Amount | None,
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
        items=None if items is None else items_of(app, instance.input_classes, items),
        duration_s=duration,
        out_path=out,
        dead_letters_path=dead_letters,
        telemetry=TelemetrySpec(folder=telemetry) if telemetry else None,
        **rest,
    )


def batching_of(batch: Mapping[str, Any] | None, max_bytes: int | None, linger_ms: float | None) -> BatchingSpec:
    """What was not said is as usual."""
    said: dict[str, Any] = {"bytes": max_bytes, "linger_ms": linger_ms, **(batch or {})}
    return BatchingSpec(**{name: value for name, value in said.items() if value is not None})
