"""The input rate as users write it, and the pattern that it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from apps.input.rates import Binary, Custom, Decreasing, Fixed, Increasing, Rate, Spike, Trace, Wave
from apps.input.traces import read_arrivals
from compositions.errors import RecomposeError
from compositions.wording import figure

_RANGED: dict[str, Callable[..., Rate]] = {
    "wave": Wave,
    "binary": Binary,
    "increasing": Increasing,
    "decreasing": Decreasing,
    "spike": Spike,
}


CUSTOM = "custom:"


@dataclass(frozen=True, slots=True)
class RateSpec:
    """The ``input`` of a start body: a rate, a pattern with its range, a trace, a function of the user's
    (``custom:module:function``), or nothing for an unpaced source."""

    rate_per_s: float | None = None
    pattern: str | None = None
    period_s: float | None = None
    min_per_s: float | None = None
    max_per_s: float | None = None
    size_percent: float = 10.0
    path: str | Path | None = None


ModuleOf = Callable[[str], ModuleType]
"""The user's module of that name. Raises: RecomposeError when there is none."""


def no_module(name: str) -> ModuleType:
    raise RecomposeError(f"module {name!r} of a custom input pattern cannot be looked for here")


def from_spec(spec: RateSpec, module_of: ModuleOf = no_module) -> Rate | None:
    """The pattern that is described; ``None`` when none is: unpaced. ``module_of`` finds a custom pattern's module.

    Raises: RecomposeError with a sentence for a value out of range, missing, or given beside one that excludes it.
    """
    pattern, rate_per_s, path = spec.pattern, spec.rate_per_s, spec.path
    ranged = {"period_s": spec.period_s, "min_per_s": spec.min_per_s, "max_per_s": spec.max_per_s}
    if pattern is None:
        what = "an input without a pattern" if rate_per_s is None else f"input rate_per_s = {rate_per_s}"
        _refuse(ranged | {"path": path}, what)
        return None if rate_per_s is None else Fixed(rate_per_s)
    if rate_per_s is not None:
        raise RecomposeError(
            f"input has both rate_per_s = {figure(rate_per_s, 6)} and pattern = {pattern!r}; give one of them"
        )
    if pattern.startswith(CUSTOM):
        _refuse(ranged | {"path": path}, f"input pattern {pattern!r}")
        return _custom(pattern, module_of)
    if pattern == "trace":
        _refuse({"min_per_s": spec.min_per_s}, "input pattern 'trace'")
        return _trace(**_require(pattern, path=path, period_s=spec.period_s), max_per_s=spec.max_per_s)
    if pattern not in _RANGED:
        known = ", ".join([*_RANGED, "trace"])
        raise RecomposeError(f"unknown input pattern {pattern!r}; known patterns are {known}, {CUSTOM}MODULE:FUNCTION")
    _refuse({"path": path}, f"input pattern {pattern!r}")
    size = {"size_percent": spec.size_percent} if pattern == "spike" else {}
    return _RANGED[pattern](**_require(pattern, **ranged), **size)


def _custom(pattern: str, module_of: ModuleOf) -> Custom:
    """Asked once for the rate at the start: what cannot be called is refused before anything runs."""
    name, _, function_name = pattern.removeprefix(CUSTOM).partition(":")
    function = getattr(module_of(name), function_name, None)
    if not callable(function):
        raise RecomposeError(f"input pattern {pattern!r}: module {name!r} has no function {function_name!r}")
    rate = Custom(function)
    try:
        rate(0.0)
    except RecomposeError:
        raise
    except Exception as error:  # the user's own code, whatever it raises
        raise RecomposeError(f"input pattern {pattern!r} fails at 0 s: {type(error).__name__}: {error}") from error
    return rate


def _trace(path: str | Path, period_s: float, max_per_s: float | None) -> Trace:
    return Trace(read_arrivals(Path(path)), period_s, max_per_s)


def _require(pattern: str, **values: Any) -> dict[str, Any]:
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise RecomposeError(f"input pattern {pattern!r} needs {', '.join(missing)} as well")
    return values


def _refuse(values: dict[str, Any], what: str) -> None:
    excess = [name for name, value in values.items() if value is not None]
    if excess:
        raise RecomposeError(f"{what} takes no {', '.join(excess)}")
