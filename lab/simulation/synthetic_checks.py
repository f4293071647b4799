"""Check that all items were delivered once, in order, each through every stage in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.synthetic.app import Synthetic, SyntheticOptions, next_link


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts over a stream of results; ``failed`` are dead letters in their place, which are no fault of the stream."""

    delivered: int = 0
    failed: int = 0
    lost: int = 0
    doubled: int = 0
    misordered: int = 0
    wrong: int = 0
    """Number of results of another item, or of stages that were skipped, repeated or out of order."""

    @property
    def ok(self) -> bool:
        return not (self.lost or self.doubled or self.misordered or self.wrong)


def expected_result(index: int, options: SyntheticOptions | None = None) -> dict[str, Any]:
    """Return the correct value of item ``index`` of the stream; a looped data set begins anew."""
    app = Synthetic(options)
    return _expected(app, index)


def verify(
    results: Iterable[Mapping[str, Any]], options: SyntheticOptions | None = None, *, accepted: int | None = None
) -> Verdict:
    """Check lines of ``--out`` or ``/results`` (``{"serial", "value"}`` or ``{"serial", "error"}``), from serial 0 on,
    of a replay that sheds nothing. ``accepted`` items must be there, or as many as the highest serial number says."""
    app = Synthetic(options)
    seen: set[int] = set()
    highest = -1
    counts = dict.fromkeys(("failed", "doubled", "misordered", "wrong"), 0)
    for result in results:
        serial = result["serial"]
        counts["doubled"] += serial in seen
        counts["misordered"] += serial not in seen and serial < highest
        counts["failed"] += "error" in result
        counts["wrong"] += "error" not in result and result["value"] != _expected(app, serial)
        seen.add(serial)
        highest = max(highest, serial)
    total = highest + 1 if accepted is None else accepted
    return Verdict(delivered=len(seen), lost=len(set(range(total)) - seen), **counts)


def _expected(app: Synthetic, index: int) -> dict[str, Any]:
    assert isinstance(app.options, SyntheticOptions)
    work = app.from_json(index % app.options.items)
    link = work.chain
    for stage in app.stages:
        link = next_link(link, stage.name, work.payload)
    return {"item": work.item, "chain": link.hex()}
