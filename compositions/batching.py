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
"""Those that choose the size by what they measure."""
Asked = Literal["auto", "fixed", ControllerName]
"""``fixed``: the size is given. ``auto``: it is left open, also who chooses it."""
CONTROLLERS: tuple[str, ...] = get_args(Asked)
AIM = "target_ms"
"""The one setting that is not the user's: it is the latency objective."""
SETTINGS = tuple(name for name in names(BatchSettings()) if name != AIM)


@dataclass(frozen=True, slots=True)
class SizeControl:
    """The controller that chooses the size, and its settings; the objective says what it aims at."""

    name: ControllerName
    settings: BatchSettings = field(default_factory=BatchSettings)

    @classmethod
    def asked(cls, controller: str | None, settings: Mapping[str, Any], items: int | None) -> "SizeControl | None":
        """From what a user says beside ``items``; None: the size is fixed, or left to ``auto``.

        Raises: SettingsError when these do not go together, with every setting that is unknown or out of range.
        """
        _refuse_contradictions(controller, settings, items)
        if controller in (None, "auto", "fixed"):
            return None
        return cls(cast(ControllerName, controller), settings_of(settings))

    @property
    def said(self) -> dict[str, int | float]:
        """The settings, as ``asked`` takes them."""
        return {name: value for name, value in plain(self.settings).items() if name != AIM}


def settings_of(said: Mapping[str, Any]) -> BatchSettings:
    """As usual but for what is ``said``. Raises: SettingsError that names every fault."""
    found = setting_faults(said)
    if found:
        raise SettingsError("; ".join(found))
    return BatchSettings().overridden(said)


def setting_faults(said: Mapping[str, Any]) -> list[str]:
    """Return what no setting of a controller may be, each by itself."""
    unknown = [_unknown(name) for name in said if name not in SETTINGS]
    return unknown or faults(BatchSettings(), said)


def _unknown(name: str) -> str:
    why = f"{AIM} is the latency objective's, set that" if name == AIM else f"unknown setting {name!r}"
    return f"{why}; there are {', '.join(SETTINGS)}"


def _refuse_contradictions(controller: str | None, settings: Mapping[str, Any], items: int | None) -> None:
    if controller is not None and controller not in CONTROLLERS:
        raise SettingsError(f"controller is {controller!r}; must be {', '.join(CONTROLLERS[:-1])} or {CONTROLLERS[-1]}")
    if controller == "fixed" and items is None:
        raise SettingsError(f"controller fixed needs items, a whole number from 1 to {MOST_ITEMS:,}; they are auto")
    if items is not None and controller not in (None, "fixed"):
        cure = f"{controller} chooses the size itself, leave items out"
        raise SettingsError(f"items = {items} goes with controller fixed only; {cure}")
    if settings and controller in (None, "auto", "fixed"):
        raise SettingsError(
            f"settings ({', '.join(map(str, settings))}) are a controller's, and {controller or 'none'} was named;"
            f" name one of {', '.join(get_args(ControllerName))}"
        )


@dataclass(frozen=True, slots=True)
class Batching:
    """A bundle is closed by count, bytes or age, whichever comes first.

    Raises: SettingsError that names every value out of range.
    """

    items: int | None = None
    """None: as many as pay (:mod:`control.bundles.bundle_size`), or as ``control`` has it."""
    max_bytes: int = ranged(4 * 2**20, 1, MOST_BYTES, "bytes")
    linger_ms: float = ranged(0.0, 0, MOST_LINGER_MS, "ms")
    """How long the first item may wait for others that are not due yet. Those that are due never wait."""
    control: SizeControl | None = None
    """None: nobody in particular was asked to choose the size."""

    def __post_init__(self) -> None:
        check(self)
        if self.items is not None and not (type(self.items) is int and 1 <= self.items <= MOST_ITEMS):
            raise SettingsError(f"items is {self.items!r}; must be auto, or a whole number from 1 to {MOST_ITEMS:,}")

    @property
    def controller(self) -> Asked:
        """Return who is to choose the size."""
        if self.control is not None:
            return self.control.name
        return "auto" if self.items is None else "fixed"

    def limits(self, size: int) -> "BundleLimits":
        """Return what holds while ``size`` items are to travel together."""
        return BundleLimits(size, self.max_bytes, self.linger_ms / 1e3)

    def controlled(self, controller: str | None, settings: Mapping[str, Any]) -> Self:
        """The same with this controller. Raises: SettingsError."""
        return replace(self, control=SizeControl.asked(controller, settings, self.items))


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """The limits at which the next bundle is closed."""

    items: int = 1
    max_bytes: int = 4 * 2**20
    linger_s: float = 0.0
