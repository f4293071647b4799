"""The file of ``recompose serve --config``: read, checked, and as options of the command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from compositions.document.safe_yaml import read_yaml
from compositions.errors import CompositionError, Fault, RecomposeError
from service.bodies.config import ServeConfig, ServiceConfig

OPTIONS = {"apps": "apps_dirs", "compositions": "compositions_dirs", "state": "state_dir", "ray": "address"}
"""What the command calls them where that is something else."""
PATHS = ("apps", "compositions", "state")
SECRET = frozenset({"sink", "source", "options", "webhook"})
"""Fields whose values are shown to nobody: a URL may have a password in it."""


class ConfigRefused(RecomposeError):  # noqa: N818 - says what happened
    """A file was refused; carries every fault."""

    def __init__(self, file: Path, faults: list[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{file}: {fault}" for fault in faults))


def read_config(file: Path) -> ServiceConfig:
    """Raises: ConfigRefused with every fault and its path."""
    try:
        document = read_yaml(file.read_bytes())
        config = ServiceConfig.model_validate({} if document is None else document)
    except OSError as error:
        raise ConfigRefused(file, [Fault("", f"cannot be read: {error.strerror}")]) from error
    except CompositionError as error:
        raise ConfigRefused(file, list(error.faults)) from error
    except ValidationError as error:
        raise ConfigRefused(file, [_fault(detail) for detail in error.errors()]) from error
    faults = [fault for name, app in config.apps.items() for fault in _of_app(name, app)]
    if faults:
        raise ConfigRefused(file, faults)
    return config


def _fault(detail: Any) -> Fault:
    path = ".".join(map(str, detail["loc"]))
    if detail["type"] == "extra_forbidden":
        return Fault(path, "is not known here")
    said = detail["msg"].removeprefix("Value error, ")
    given = f"{detail['input']!r} " if _may_be_shown(detail) else ""
    return Fault(path, f"{given}is not accepted: {said[:1].lower()}{said[1:]}"[:500])


def _may_be_shown(detail: Any) -> bool:
    """Not what may carry a password: places and options, and whatever has them inside."""
    return not SECRET.intersection(detail["loc"]) and not isinstance(detail["input"], Mapping | list)


def _of_app(name: str, app: Any) -> list[Fault]:
    """What no field says by itself."""
    faults = [] if app.source.fault is None else [Fault(f"apps.{name}.source", app.source.fault)]
    if app.budget is not None and app.slo is None:
        faults.append(Fault(f"apps.{name}.budget", "a budget is for an objective; say which with slo"))
    try:
        _ = app.wanted
        _ = app.batching.batching
    except RecomposeError as error:
        faults.append(Fault(f"apps.{name}", str(error)))
    return faults


def options_of(service: ServeConfig, folder: Path) -> Mapping[str, Any]:
    """By the names of the command's parameters, what was said; paths as seen from ``folder``."""
    said = {name: value for name, value in service.model_dump().items() if value not in (None, [])}
    for name in PATHS:
        if name in said:
            paths = said[name]
            said[name] = str(folder / paths) if isinstance(paths, str) else [str(folder / each) for each in paths]
    return {OPTIONS.get(name, name): value for name, value in said.items()}


def _as_defaults(ctx: click.Context, param: click.Parameter, file: Path | None) -> Path | None:
    """What the file says of the service stands in for options that are not given."""
    if file is not None:
        ctx.default_map = {**(ctx.default_map or {}), **options_of(read_config(file).service, file.resolve().parent)}
    return file


config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    is_eager=True,
    callback=_as_defaults,
    help="YAML with these options, apps to run, and what is wanted of them; read again when it changes.",
)
