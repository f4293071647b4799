"""How many items travel together, as a document says it and is told it."""

from __future__ import annotations

from dataclasses import replace

from compositions.batching import MOST_BYTES, MOST_ITEMS, MOST_LINGER_MS, Batching
from compositions.document.fields import Fields, kind
from compositions.settings import SettingsError

_ACCEPTED = {
    "items": f"auto, or a whole number from 1 to {MOST_ITEMS:,}",
    "bytes": f"a whole number from 1 to {MOST_BYTES:,}",
    "linger_ms": f"a number from 0 to {MOST_LINGER_MS:,}",
}


def read_batch(fields: Fields, value: object, path: str, usual: Batching) -> Batching:
    """What is not said is as ``usual``, and so is what cannot be read, which is noted."""
    batch = usual
    for key, said in fields.mapping(value, path, tuple(_ACCEPTED)).items():
        try:
            batch = _with(batch, key, said)
        except SettingsError:
            fields.fault(f"{path}.{key}", f"must be {_ACCEPTED[key]}, not {kind(said)}")
    return batch


def _with(batch: Batching, key: str, said: object) -> Batching:
    """Raises: SettingsError."""
    if said is None:
        raise SettingsError(f"{key} is nothing")
    changed: dict[str, object] = {"max_bytes" if key == "bytes" else key: None if said == "auto" else said}
    return replace(batch, **changed)  # type: ignore[arg-type]  # it checks itself


def batch_plain(batch: Batching) -> dict[str, object]:
    """As ``read_batch`` reads it back, whatever is usual."""
    items = "auto" if batch.items is None else batch.items
    return {"items": items, "bytes": batch.max_bytes, "linger_ms": batch.linger_ms}
