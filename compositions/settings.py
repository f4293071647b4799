"""Settings with ranges: groups whose fields define the accepted values, checked together and replaced by plain name.

A group is a frozen dataclass; its fields are ``ranged``, ``one_of`` some names, or groups themselves. Other fields are
ignored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, field, fields, is_dataclass, replace
from typing import Any, Self, TypeVar

from compositions.errors import RecomposeError, shown
from compositions.wording import figure

Group = TypeVar("Group")


class SettingsError(RecomposeError):
    """One or more settings are unknown or out of range; the text names each."""


def ranged(default: float, low: float, high: float, unit: str = "") -> Any:
    """Return a field with an allowed range ``[low, high]`` in ``unit``; a whole default allows only whole numbers."""
    return field(default=default, metadata={"low": low, "high": high, "unit": unit})


def one_of(default: str, *others: str) -> Any:
    """Return a field whose value is one of these names."""
    return field(default=default, metadata={"names": (default, *others)})


def check(group: object) -> None:
    """Check ``group`` and the groups in it. Raises: SettingsError that names every value out of range."""
    _refuse(fault for limits, value in _values(group) if (fault := _fault(limits, value)))


class Checked:
    """Base class of settings that are checked at construction. Raises: SettingsError that names every fault."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check(self)

    def overridden(self, values: Mapping[str, Any]) -> Self:
        """Return these settings with single fields replaced by their plain names (``{"trial_s": 2.5}``).

        Raises: SettingsError that names every unknown name and every value out of range.
        """
        return overridden(self, values)


def overridden(group: Group, values: Mapping[str, Any]) -> Group:
    """Return ``group`` with single fields, its own or of the groups in it, replaced by their plain names.

    Raises: SettingsError that names every unknown name and every value out of range.
    """
    _refuse(iter(faults(group, values)))
    return _replaced(group, values)


def faults(group: object, values: Mapping[str, Any]) -> list[str]:
    """Return a fault for each of ``values`` that is unknown or out of range; contradictions are not checked."""
    known = {limits.name: limits for limits, _ in _values(group)}
    return [fault for name, value in values.items() if (fault := _override_fault(known, name, value))]


def names(group: object) -> list[str]:
    """Return the plain names of all fields with a range or names, those of the groups in it included."""
    return [limits.name for limits, _ in _values(group)]


def plain(group: object) -> dict[str, int | float]:
    """Return the values of all fields with a range or names, by plain name, as ``overridden`` takes them."""
    return {limits.name: value for limits, value in _values(group)}


def ranges(group: object) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest accepted value of each field, by plain name."""
    return {limits.name: (limits.metadata["low"], limits.metadata["high"]) for limits, _ in _values(group)}


def _refuse(faults: Iterator[str]) -> None:
    found = list(faults)
    if found:
        raise SettingsError("; ".join(found))


def _values(group: Any) -> Iterator[tuple[Field[Any], Any]]:
    """Yield each field with a range or names, and its value."""
    for each in fields(group):
        value = getattr(group, each.name)
        if is_dataclass(value):
            yield from _values(value)
        elif _says(each):
            yield each, value


def _says(limits: Field[Any]) -> bool:
    return "low" in limits.metadata or "names" in limits.metadata


def _replaced(group: Group, values: Mapping[str, Any]) -> Group:
    own: dict[str, Any] = {}
    for each in fields(group):  # type: ignore[arg-type]  # a dataclass, which no bound can say
        value = getattr(group, each.name)
        if is_dataclass(value):
            own[each.name] = _replaced(value, values)
        elif _says(each) and each.name in values:
            own[each.name] = values[each.name]
    return replace(group, **own)  # type: ignore[type-var]


def _override_fault(known: Mapping[str, Field[Any]], name: str, value: object) -> str | None:
    if name not in known:
        return f"unknown setting {name!r}; there are {', '.join(sorted(known))}"
    return _fault(known[name], value)


def _fault(limits: Field[Any], value: object) -> str | None:
    if names := limits.metadata.get("names"):
        return None if value in names else f"{limits.name} = {value!r}, must be {' or '.join(names)}"
    low, high, unit = limits.metadata["low"], limits.metadata["high"], limits.metadata["unit"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{limits.name} = {shown(value)}, must be a number"
    if isinstance(limits.default, int) and not isinstance(value, int):
        return f"{limits.name} = {shown(value)}, must be a whole number"
    if not low <= value <= high:
        accepted = f"[{figure(low, 6)}, {figure(high, 6)}]{f' {unit}' if unit else ''}"
        return f"{limits.name} = {shown(value)}, must be in {accepted}"
    return None
