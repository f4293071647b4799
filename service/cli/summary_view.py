"""What a run came to, as a table."""

from __future__ import annotations

from service.bodies.results import Summary
from service.cli.render import number


def summary_rows(summary: Summary) -> list[tuple[str, str]]:
    items = dict(summary.items) if summary.items else {}
    settle = ", ".join(number(each, " s") for each in summary.settle_s)
    share = summary.slo_met_share
    return [
        *_asked_for(summary),
        ("items", ", ".join(f"{name} {count:,}" for name, count in items.items())),
        ("time", number(summary.elapsed_s, " s")),
        ("throughput, without the start", number(summary.throughput_per_s, "/s", 2)),
        ("latency, mean at the end", number(summary.latency_ms, " ms")),
        ("workers", "–" if summary.workers is None else str(summary.workers)),
        ("compositions used", ", ".join(summary.compositions_used)),
        *_bundles(summary),
        ("switches", str(summary.switches)),
        ("time to settle", settle or "–"),
        ("SLO met", "–" if share is None else f"{share:.0%} of the time"),
    ]


def _bundles(summary: Summary) -> list[tuple[str, str]]:
    """Where not every item travelled alone."""
    sizes = summary.bundle_sizes
    return (
        [("items in a bundle, at most", ", then ".join(f"{each:,}" for each in sizes))]
        if max(sizes, default=1) > 1
        else []
    )


def _asked_for(summary: Summary) -> list[tuple[str, str]]:
    """Where not all that was asked for came out."""
    delivered = summary.items.delivered if summary.items else 0
    if summary.offered is None or summary.offered == summary.admitted == delivered:
        return []
    counts = {"offered": summary.offered, "admitted": summary.admitted, "missed": summary.missed}
    told = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count is not None)
    late = f"; the next item due for {number(summary.lag_s, ' s')}" if summary.lag_s else ""
    return [("asked for", told + late)]
