"""How many items travel together, as a document says it and is told it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compositions.batching import CONTROLLERS, MOST_BYTES, MOST_ITEMS, MOST_LINGER_MS, SETTINGS, Batching
from compositions.document.fields import Fields, kind
from compositions.settings import SettingsError

_ACCEPTED = {
    "items": f"auto, or a whole number from 1 to {MOST_ITEMS:,}",
    "bytes": f"a whole number from 1 to {MOST_BYTES:,}",
    "linger_ms": f"a number from 0 to {MOST_LINGER_MS:,}",
}
_CONTROL = ("controller", "settings")
_ONE_OF = f"{', '.join(CONTROLLERS[:-1])} or {CONTROLLERS[-1]}"


def read_batch(fields: Fields, value: object, path: str, usual: Batching) -> Batching:
    """What is not said is as ``usual``, and so is what cannot be read, which is noted."""
    said = fields.mapping(value, path, (*_ACCEPTED, *_CONTROL))
    batch = _who_chooses(said, usual)
    for key in [each for each in _ACCEPTED if each in said]:
        try:
            batch = _with(batch, key, said[key])
        except SettingsError:
            fields.fault(f"{path}.{key}", f"must be {_ACCEPTED[key]}, not {kind(said[key])}")
    return _controlled(fields, said, path, batch) if said.keys() & set(_CONTROL) else batch


def _who_chooses(said: Mapping[str, object], usual: Batching) -> Batching:
    """``usual`` without its size where an entry names a controller, and without its controller where it has a size."""
    if "controller" in said:
        return replace(usual, items=None, control=None)
    return replace(usual, control=None) if "items" in said else usual


def _with(batch: Batching, key: str, said: object) -> Batching:
    """Raises: SettingsError."""
    if said is None:
        raise SettingsError(f"{key} is nothing")
    changed: dict[str, object] = {"max_bytes" if key == "bytes" else key: None if said == "auto" else said}
    return replace(batch, **changed)  # type: ignore[arg-type]  # it checks itself


def _controlled(fields: Fields, said: Mapping[str, object], path: str, batch: Batching) -> Batching:
    controller = said.get("controller", batch.control and batch.control.name)
    settings = fields.mapping(said.get("settings", {}), f"{path}.settings", SETTINGS)
    if "controller" in said and controller not in CONTROLLERS:
        fields.fault(f"{path}.controller", f"must be {_ONE_OF}, not {kind(controller)}")
        return batch
    try:
        return batch.controlled(None if controller is None else str(controller), settings)
    except SettingsError as error:
        fields.fault(f"{path}.settings" if settings else path, str(error))
        return batch


def batch_plain(batch: Batching) -> dict[str, object]:
    """As ``read_batch`` reads it back, whatever is usual."""
    items = "auto" if batch.items is None else batch.items
    own: dict[str, object] = {"items": items, "bytes": batch.max_bytes, "linger_ms": batch.linger_ms}
    if batch.control is None:
        return own
    return {**own, "controller": batch.control.name, "settings": batch.control.said}
