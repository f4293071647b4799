"""The bundle size: what a user requests, and the limits in force at a moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, cast, get_args

from compositions.batch_settings import BatchSettings
from compositions.settings import SettingsError, check, faults, names, plain, ranged

MOST_ITEMS = 100_000
MOST_BYTES = 2**40
MOST_LINGER_MS = 60_000
ControllerName = Literal["faf", "pbaf", "pbaf-wt", "mbaf", "pmbaf", "pid", "slo-batch"]
"""Controllers that choose the size from measurements."""
Asked = Literal["auto", "fixed", ControllerName]
"""``fixed``: the user sets the size. ``auto``: the app chooses the size and the controller."""
CONTROLLERS: tuple[str, ...] = get_args(Asked)
AIM = "target_ms"
"""The only setting that the user cannot set, because it is the latency objective."""
SETTINGS = tuple(name for name in names(BatchSettings()) if name != AIM)


@dataclass(frozen=True, slots=True)
class SizeControl:
    """The controller that chooses the size, and its settings; its target is the latency objective."""

    name: ControllerName
    settings: BatchSettings = field(default_factory=BatchSettings)

    @classmethod
    def asked(cls, controller: str | None, settings: Mapping[str, Any], items: int | None) -> "SizeControl | None":
        """Return the control for a user's request; None: the size is fixed, or left to ``auto``.

        Raises: SettingsError for a contradiction, or with every setting that is unknown or out of range.
        """
        _refuse_contradictions(controller, settings, items)
        if controller in (None, "auto", "fixed"):
            return None
        return cls(cast(ControllerName, controller), settings_of(settings))

    @property
    def said(self) -> dict[str, int | float]:
        """The settings in the form that ``asked`` takes."""
        return {name: value for name, value in plain(self.settings).items() if name != AIM}


def settings_of(said: Mapping[str, Any]) -> BatchSettings:
    """Return the default settings with the values in ``said``. Raises: SettingsError that names every fault."""
    found = setting_faults(said)
    if found:
        raise SettingsError("; ".join(found))
    return BatchSettings().overridden(said)


def setting_faults(said: Mapping[str, Any]) -> list[str]:
    """Return the faults of single settings: unknown names and values out of range."""
    unknown = [_unknown(name) for name in said if name not in SETTINGS]
    return unknown or faults(BatchSettings(), said)


def _unknown(name: str) -> str:
    why = f"set the latency objective instead of {AIM}" if name == AIM else f"unknown setting {name!r}"
    return f"{why}; there are {', '.join(SETTINGS)}"


def _refuse_contradictions(controller: str | None, settings: Mapping[str, Any], items: int | None) -> None:
    if controller is not None and controller not in CONTROLLERS:
        raise SettingsError(f"controller is {controller!r}; must be {', '.join(CONTROLLERS[:-1])} or {CONTROLLERS[-1]}")
    if controller == "fixed" and items is None:
        raise SettingsError(f"controller fixed needs items, a whole number from 1 to {MOST_ITEMS:,}; items is auto")
    if items is not None and controller not in (None, "fixed"):
        cure = f"{controller} chooses the size itself, leave items out"
        raise SettingsError(f"items = {items} is accepted with controller fixed only; {cure}")
    if settings and controller in (None, "auto", "fixed"):
        raise SettingsError(
            f"settings ({', '.join(map(str, settings))}) need an adaptive controller, not {controller or 'none'};"
            f" name one of {', '.join(get_args(ControllerName))}"
        )


@dataclass(frozen=True, slots=True)
class Batching:
    """A user's request for bundles: a bundle is closed by count, bytes or age, whichever comes first.

    Raises: SettingsError that names every value out of range.
    """

    items: int | None = None
    """Bundle size; None: ``control`` chooses it, or :mod:`control.bundles.bundle_size` if that is None, too."""
    max_bytes: int = ranged(4 * 2**20, 1, MOST_BYTES, "bytes")
    linger_ms: float = ranged(0.0, 0, MOST_LINGER_MS, "ms")
    """Maximum time for which the first item waits for items that are not due yet; due items never wait."""
    control: SizeControl | None = None
    """Controller that the user named; None: none."""

    def __post_init__(self) -> None:
        check(self)
        if self.items is not None and not (type(self.items) is int and 1 <= self.items <= MOST_ITEMS):
            raise SettingsError(f"items is {self.items!r}; must be auto, or a whole number from 1 to {MOST_ITEMS:,}")

    @property
    def controller(self) -> Asked:
        """Name of the controller that chooses the size; ``fixed`` or ``auto`` if the user named none."""
        if self.control is not None:
            return self.control.name
        return "auto" if self.items is None else "fixed"

    def limits(self, size: int) -> "BundleLimits":
        """Return the limits for bundles of ``size`` items."""
        return BundleLimits(size, self.max_bytes, self.linger_ms / 1e3)

    def controlled(self, controller: str | None, settings: Mapping[str, Any]) -> Self:
        """Return a copy with this controller. Raises: SettingsError if controller, settings and size do not fit."""
        return replace(self, control=SizeControl.asked(controller, settings, self.items))


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """The limits at which the next bundle is closed."""

    items: int = 1
    max_bytes: int = 4 * 2**20
    linger_s: float = 0.0
