"""The scenes of the dashboard, and what of them must be read in words."""

from typing import Any

NOTHING: dict[str, Any] = {
    "composition": None, "workers": [], "slo_status": "unknown", "queued": 0, "in_flight": 0,
    "input_rate_per_s": None, "throughput_per_s": None, "latency_ms": dict.fromkeys(("mean", "p50", "p95", "p99")),
}  # fmt: skip
SCENES: dict[str, dict[str, Any]] = {
    "stable": {"moved_ago_s": 100.0},
    "violated": {"slo_status": "violated", "latency_ms": {"mean": 620.0, "p50": 600.0, "p95": 800.0, "p99": 900.0}},
    "overloaded": {
        "slo_status": "violated", "latency_ms": {"mean": 2100.0, "p50": 2000.0, "p95": 2900.0, "p99": 3100.0},
        "offered_per_s": 40.0, "admitted_per_s": 21.3, "throughput_per_s": 20.9, "queued": 214, "missed": 118,
        "lag_s": 12.4, "held_up": "the source is held back: the next item is overdue by 12.4 s",
    },
    "infeasible": {"slo_status": "infeasible", "queued": 214},
    "switching": {"state": "switching", "slo_status": "unknown"},
    "starting": {**NOTHING, "state": "starting"},
    "stopping": {"state": "stopping", "slo_status": "unknown", "queued": 12},
    "failed": {**NOTHING, "state": "failed", "failure": "Traceback\n  workers cannot start: no memory"},
}  # fmt: skip
NOTICES = {
    "overloaded": "40.0/s offered, 21.3/s admitted, 20.9/s delivered; 214 wait.",
    "infeasible": "The SLO is out of reach.",
    "starting": "Workers are being started",
    "stopping": "Accepted items are delivered first",
    "failed": "workers cannot start: no memory",
}
