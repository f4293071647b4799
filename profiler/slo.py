"""Service-level objectives: what may be asked for, and whether it is met."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, cast, get_args

from compositions.errors import Fault, RecomposeError
from profiler.snapshot import LatencyStats, Snapshot

Metric = Literal["latency", "throughput"]
Statistic = Literal["mean", "p50", "p95", "p99"]
INPUT_RATE: Literal["input_rate"] = "input_rate"


class SloStatus(StrEnum):
    """Values of ``slo_status`` in the API."""

    MET = "met"
    VIOLATED = "violated"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Slo:
    """An objective; ``target`` in milliseconds for latency, items/s or ``"input_rate"`` for throughput."""

    metric: Metric
    target: float | Literal["input_rate"]
    threshold: float = 0.2
    statistic: Statistic = "mean"

    def bound(self, input_rate_per_s: float | None) -> float | None:
        """The value beyond which the SLO counts as violated (Vogel et al., step 2), in the unit of ``target``.

        ``None`` when the target is the input rate and that is not known.
        """
        if self.metric == "latency":
            return float(self.target) * (1 + self.threshold)
        target = input_rate_per_s if self.target == INPUT_RATE else float(self.target)
        return None if target is None else target * (1 - self.threshold)

    def value_of(self, latency: LatencyStats | None, throughput_per_s: float | None) -> float | None:
        """What was measured of this SLO's metric, in the unit of ``target``."""
        if self.metric == "throughput":
            return throughput_per_s
        return None if latency is None else latency.statistic(self.statistic) * 1e3


# --- what may be asked for -------------------------------------------------------------------------------------------


class SloError(RecomposeError):
    """An SLO was refused; carries every fault, with the name of the field as its path."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(fault.message for fault in self.faults))


def validated(slo: Slo) -> Slo:
    """``slo`` itself. Raises: SloError that names every value out of range and what would be accepted."""
    faults = [*_metric_faults(slo), *_target_faults(slo), *_other_faults(slo)]
    if faults:
        raise SloError(faults)
    return slo


def _metric_faults(slo: Slo) -> Iterator[Fault]:
    if slo.metric not in get_args(Metric):
        yield Fault("metric", f"metric {slo.metric!r} is unknown; accepted are latency and throughput")


def _target_faults(slo: Slo) -> Iterator[Fault]:
    target = slo.target
    if target == INPUT_RATE:
        if slo.metric == "latency":
            yield Fault("target", "target 'input_rate' is for throughput; a latency takes milliseconds, such as 400")
    elif isinstance(target, bool) or not isinstance(target, int | float):
        yield Fault("target", f"target {target!r} is not a number above 0 nor 'input_rate'")
    elif not 0 < target < math.inf:
        unit = "milliseconds" if slo.metric == "latency" else "items/s"
        yield Fault("target", f"target {target} must be a finite number of {unit} above 0")


def _other_faults(slo: Slo) -> Iterator[Fault]:
    if not 0 <= slo.threshold <= 1:
        yield Fault("threshold", f"threshold {slo.threshold} must be in [0, 1], such as 0.2 for 20 %")
    if slo.statistic not in get_args(Statistic):
        yield Fault("statistic", f"statistic {slo.statistic!r} is unknown; accepted are mean, p50, p95 and p99")
    elif slo.metric == "throughput" and slo.statistic != "mean":
        yield Fault("statistic", f"statistic {slo.statistic!r} is for latency; a throughput has none, leave it out")


_FORMS = "accepted are latency=400ms, latency=0.4s, throughput=10/s and throughput=input_rate"
_NUMBER = r"([-+]?[\d.]+(?:e[-+]?\d+)?)"
_UNITS: Mapping[str, Mapping[str, float]] = {"latency": {"ms": 1.0, "s": 1e3}, "throughput": {"/s": 1.0}}


def parse_slo(text: str, *, threshold: float = 0.2, statistic: Statistic = "mean") -> Slo:
    """An SLO in the form of the command line: ``latency=400ms``, ``throughput=10/s`` or ``throughput=input_rate``.

    Raises: SloError with a sentence on what is wrong with ``text`` and what would be accepted.
    """
    metric, equals, target = (part.strip() for part in text.partition("="))
    if metric not in _UNITS or not equals:
        raise _unreadable(text, "it must begin with latency= or throughput=")
    if target == INPUT_RATE:
        return validated(Slo(cast(Metric, metric), INPUT_RATE, threshold, statistic))
    value = _quantity(text, target, _UNITS[metric])
    return validated(Slo(cast(Metric, metric), value, threshold, statistic))


def _quantity(text: str, target: str, units: Mapping[str, float]) -> float:
    match = re.fullmatch(_NUMBER + r"\s*(\S*)", target)
    if match is None:
        raise _unreadable(text, f"{target!r} is not a number with a unit")
    number, unit = match.groups()
    if unit not in units:
        raise _unreadable(text, f"unit {unit!r} must be {' or '.join(units)}")
    try:
        return float(number) * units[unit]
    except ValueError:
        raise _unreadable(text, f"{number!r} is not a number") from None


def _unreadable(text: str, why: str) -> SloError:
    return SloError([Fault("slo", f"SLO {text!r} is not understood: {why}; {_FORMS}")])


# --- is it met? ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """An SLO against measurements. ``value`` and ``bound`` in the unit of the target, ``None`` where unknown."""

    status: SloStatus
    reason: str
    value: float | None = None
    bound: float | None = None
    slack: float | None = None
    """Room left to the bound as a ratio of it: 0.25 is a quarter to spare, below 0 is a violation."""


def evaluate(slo: Slo | None, snapshot: Snapshot, *, min_samples: int) -> Verdict:
    """Whether ``snapshot`` meets ``slo`` (Vogel et al., section 3.2, step 2). Never INFEASIBLE: one composition cannot
    tell. A missing value, or fewer than ``min_samples`` items delivered in the window, is UNKNOWN with the reason."""
    if slo is not None and snapshot.delivered < min_samples and not _stalled(slo, snapshot):
        reason = f"too few samples: {snapshot.delivered} of {min_samples} items delivered in the window"
        return Verdict(SloStatus.UNKNOWN, reason)
    return judge(slo, snapshot.latency, snapshot.throughput_per_s, snapshot.input_rate_per_s)


def _stalled(slo: Slo, snapshot: Snapshot) -> bool:
    """Items are there and none came out for so long that the throughput is known to be 0: that is the answer."""
    return slo.metric == "throughput" and snapshot.throughput_per_s == 0 and snapshot.queued + snapshot.in_flight > 0


def judge(
    slo: Slo | None, latency: LatencyStats | None, throughput_per_s: float | None, input_rate_per_s: float | None
) -> Verdict:
    """Whether the measurements meet ``slo``; values that are missing make the answer UNKNOWN."""
    if slo is None:
        return Verdict(SloStatus.NONE, "no SLO is set")
    bound = slo.bound(input_rate_per_s)
    value = slo.value_of(latency, throughput_per_s)
    if bound is None:
        return Verdict(SloStatus.UNKNOWN, "the input rate is not known yet", value)
    if value is None:
        return Verdict(SloStatus.UNKNOWN, f"too few samples: no {slo.metric} measured yet", bound=bound)
    slack = slack_ratio(slo, value, bound)
    status = SloStatus.MET if slack >= 0 else SloStatus.VIOLATED
    return Verdict(status, _sentence(slo, value, bound, status), value, bound, slack)


def slack_ratio(slo: Slo, value: float, bound: float) -> float:
    """How far ``value`` is from ``bound`` on the good side, as a ratio of the bound; 0 on it, negative beyond."""
    room = bound - value if slo.metric == "latency" else value - bound
    return room / bound if bound else math.copysign(math.inf, room) if room else 0.0


def _sentence(slo: Slo, value: float, bound: float, status: SloStatus) -> str:
    unit = "ms" if slo.metric == "latency" else "items/s"
    name = slo.metric if slo.statistic == "mean" else f"{slo.statistic} {slo.metric}"
    met, missed = ("is at most", "is above") if slo.metric == "latency" else ("is at least", "is below")
    return f"{name} {value:.4g} {unit} {met if status is SloStatus.MET else missed} {bound:.4g} {unit}"


def differ(value: float, reference: float, threshold: float = 0.2) -> bool:
    """Whether ``value`` contrasts significantly with ``reference``: by more than ``threshold`` of it.

    Vogel et al., section 3.2, step 2.
    """
    return abs(value - reference) > threshold * abs(reference)
