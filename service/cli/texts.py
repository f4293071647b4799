"""Convert texts of the command line (``wave:period=60,min=1,max=10``) to values; options that commands share."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import BaseModel, ValidationError

from apps.registry import ENTRY_POINT_GROUP
from compositions.batching import CONTROLLERS
from compositions.errors import RecomposeError
from datapipe.source_kinds import KINDS
from profiler.budget import Budget, parse_budget
from profiler.slo import Slo, together
from service.schemas.refusals import refusal
from service.schemas.spec import BatchingSpec, InputSpec, SinkSpec, SourceSpec

Amount = int | str
"""A number of items, or the name of a class of input."""


def parse_amount(text: str) -> Amount:
    """Return a number of items, or another text unchanged. Raises: ValueError for a number below 1."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    if not digits.isdecimal():
        return text
    if int(text) < 1:
        raise ValueError(f"{text} is no number of items; give 1 or more, or a class of input such as small")
    return int(text)


def items_of(app: str, classes: Mapping[str, int], asked: Amount) -> int:
    """Return the requested number of items of ``app``. Raises: RecomposeError for an unknown class of input."""
    if isinstance(asked, int):
        return asked
    if asked in classes:
        return classes[asked]
    known = f"it has {', '.join(classes)}" if classes else "it has none"
    raise RecomposeError(f"app {app!r} has no class of input {asked!r}; {known}; a number of items is accepted, too")


M = TypeVar("M", bound=BaseModel)
SHORT = {"period": "period_s", "min": "min_per_s", "max": "max_per_s", "size": "size_percent", "path": "path"}
"""Parameters of a pattern and their names in the API, which are accepted too."""
PATTERN_EXAMPLE = "such as wave:period=60,min=1,max=10"
SINK_OF = {
    **{own: own for own in ("redis", "kafka", "nats", "mqtt")},
    **{"rediss": "redis", "mqtts": "mqtt", "amqp": "rabbitmq", "amqps": "rabbitmq"},
    **{"http": "webhook", "https": "webhook"},
}
"""Kind of sink by the scheme of its URL."""
SOURCE_OF = {"mqtt": "mqtt", "mqtts": "mqtt", "amqp": "rabbitmq", "amqps": "rabbitmq"}
"""Kind of source by scheme, if the whole URL is the source's path."""
SPARK_WRITES, SPARK_FORMATS = "spark+", ("parquet", "orc", "json", "csv")
"""Prefix and formats of tables that Spark writes. Only parquet needs the prefix, as it is also a sink itself."""
BATCH_EXAMPLE = "such as pid:kp=10,ki=15"


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic in later versions of click alone
    """A click type that converts a text with ``parse``; texts that ``parse`` refuses are usage errors, exit code 2."""

    name = "text"

    def __init__(self, parse: Callable[[str], object]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value)
        except (RecomposeError, ValueError) as error:
            self.fail(str(error), param, ctx)


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
"""A folder; it need not exist."""
POSITIVE = click.FloatRange(0, min_open=True)


def parse_pattern(text: str) -> InputSpec:
    """Parse an input pattern. Raises: ValueError with a sentence."""
    name, _, rest = text.partition(":")
    if name == "custom":
        return _valid(InputSpec, {"pattern": text})
    fields: dict[str, str | float] = {"pattern": name}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        field = SHORT.get(key, key)
        if field not in SHORT.values() or not equals:
            raise ValueError(f"{pair!r} is not NAME=VALUE, where NAME is one of {', '.join(SHORT)}; {PATTERN_EXAMPLE}")
        if field in fields:
            raise ValueError(f"{field} is given twice in {text!r}; give it once, {PATTERN_EXAMPLE}")
        fields[field] = value if key == "path" else float(_number(key, value, PATTERN_EXAMPLE))
    return _valid(InputSpec, fields)


def parse_rate(text: str) -> InputSpec:
    return _valid(InputSpec, {"rate_per_s": float(_number("rate", text, PATTERN_EXAMPLE))})


def parse_batch(text: str) -> dict[str, Any]:
    """Parse ``auto``, a number of items, or ``CONTROLLER:KEY=VALUE,…`` to fields of the API. Raises: ValueError."""
    controller, _, rest = text.partition(":")
    if controller in CONTROLLERS[2:]:
        pairs = (pair.partition("=") for pair in rest.split(",") if pair)
        settings = {key: _number(key, value, BATCH_EXAMPLE) for key, _, value in pairs}
        fields: dict[str, Any] = {"controller": controller, "settings": settings}
        _ = _valid(BatchingSpec, fields).batching
        return fields
    try:
        return {"items": _valid(BatchingSpec, {"items": int(text) if text.lstrip("-").isdecimal() else text}).items}
    except ValueError as error:
        raise ValueError(f"{error}, or one of {', '.join(CONTROLLERS[2:])}, {BATCH_EXAMPLE}") from error


def parse_source(text: str) -> SourceSpec:
    """Parse ``KIND``, ``KIND:PATH``, or a URL whose scheme names the kind. Raises: ValueError with a sentence."""
    kind, _, path = text.partition(":")
    if kind in SOURCE_OF and path.startswith("//"):
        kind, path = SOURCE_OF[kind], text
    if kind not in KINDS:
        *others, last = (form for each in KINDS.values() for form in each.written)
        raise ValueError(f"{kind!r} is not a kind of source; give {', '.join(others)} or {last}")
    return _spark_source(path) if KINDS[kind].driven else _valid(SourceSpec, {"kind": kind, "path": path or None})


def _spark_source(file: str) -> SourceSpec:
    """Read a YAML file with the fields of the source, as in the start body."""
    from compositions.document.safe_yaml import read_yaml  # imported here: a script with another source needs no YAML

    try:
        fields = read_yaml(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {file!r} ({error}); give spark:FILE.yaml, with format, path, options") from error
    if not isinstance(fields, dict):
        raise ValueError(f"{file!r} must be a mapping with format, path, options and transform")
    source = _valid(SourceSpec, {"kind": "spark", **fields})
    if source.fault is not None:
        raise ValueError(f"{file!r}: {source.fault}")
    return source


def parse_sink(text: str) -> SinkSpec:
    """Parse ``parquet:FOLDER``, ``sql:URL``, a sink's URL, or ``spark+FORMAT:PATH`` for a table. Raises: ValueError."""
    kind, _, path = text.partition(":")
    if kind in ("parquet", "sql"):
        return _valid(SinkSpec, {"kind": kind, "path": path})
    if kind in SINK_OF:
        return _valid(SinkSpec, {"kind": SINK_OF[kind], "path": text})
    format_ = kind.removeprefix(SPARK_WRITES)
    if format_ not in SPARK_FORMATS:
        own = "parquet:FOLDER, sql:URL, redis://…, kafka://…, nats://…, mqtt://…, amqp://…, https://…"
        raise ValueError(f"{text!r} is no sink; give {own} or {SPARK_WRITES}FORMAT:PATH ({', '.join(SPARK_FORMATS)})")
    return _valid(SinkSpec, {"format": format_, "path": path})


def parse_option(text: str) -> tuple[str, Any]:
    """Parse ``KEY=VALUE``: a list or an object as JSON, everything else as text that the app's options convert."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"{text!r} is not KEY=VALUE")
    with suppress(ValueError):
        return key, json.loads(value) if value[:1] in ("[", "{") else value
    return key, value


def _number(key: str, text: str, example: str) -> int | float:
    """Return an integer if the text is one, else a float."""
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError as error:
        raise ValueError(f"{key} = {text!r} is not a number, {example}") from error


def _valid(model: type[M], fields: Mapping[str, object]) -> M:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise ValueError(refusal(error)) from error


def known_apps(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the installed apps whose names begin with the typed text, without loading an app or asking a service."""
    return sorted(name for name in entry_points(group=ENTRY_POINT_GROUP).names if name.startswith(incomplete))


C = TypeVar("C", bound=Callable[..., Any])


def options(*those: Callable[[Any], Any]) -> Callable[[C], C]:
    """Return a decorator that adds these options, in the order of the help page."""

    def decorate(command: C) -> C:
        for option in reversed(those):
            command = option(command)
        return command

    return decorate


app_options = click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    type=Parsed(parse_option),
    callback=lambda _, __, pairs: dict(pairs),
    help="Option of the app.",
)
spark_option = click.option("--master", help="Spark master, such as spark://host:7077 (default: this machine's cores).")
app_argument = click.argument("app", shell_complete=known_apps)
budget_option = click.option(
    "--budget", type=Parsed(parse_budget), help="Budget: workers=8, cores=3 or both, separated by a comma."
)
threshold_option = click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.2,
    help="Tolerated deviation as a ratio of the target: 0.2 allows 480 ms for 400 ms, or 8/s for 10/s.",
)


def all_together(slos: Sequence[Slo], threshold: float, budget: Budget | None) -> Slo | None:
    """Return the joint objective, if any. Raises: click.UsageError for a budget alone, or a contradiction."""
    if not slos:
        if budget is not None:
            raise click.UsageError("--budget needs an objective; give one with --slo")
        return None
    try:
        return together([replace(each, threshold=threshold) for each in slos], budget)
    except RecomposeError as error:
        raise click.UsageError(str(error)) from error
