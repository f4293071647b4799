"""Service-level objectives: the targets that a user may set, their parser and checks, and verdicts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, cast, get_args

from compositions.errors import Fault, RecomposeError
from compositions.wording import did_you_mean, figure
from profiler import budget as budgets
from profiler.budget import FREE, Budget


class SloHits:
    """Counts the seconds in which the SLO was met. Seconds without a measurement are not counted."""

    def __init__(self) -> None:
        self.seconds = self.seconds_met = 0
        self._newest: int | None = None

    @property
    def time_share(self) -> float | None:
        """Share of the counted seconds in which the SLO was met, 0..1; ``None`` before the first."""
        return self.seconds_met / self.seconds if self.seconds else None

    def add_second(self, at_s: float, verdict: "Verdict") -> None:
        """Count the verdict on the second that ends at ``at_s``; of several in one second the first counts."""
        second = int(at_s)
        if self._newest is not None and second <= self._newest:
            return
        self._newest = second
        if verdict.status in (SloStatus.MET, SloStatus.VIOLATED):
            self.seconds += 1
            self.seconds_met += verdict.status is SloStatus.MET


Metric = Literal["latency", "throughput"]
Statistic = Literal["mean", "p50", "p95", "p99", "share"]
QUANTILES: Mapping[Statistic, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
SHARE = 0.95
"""Default share of the items for statistic ``share``."""
INPUT_RATE: Literal["input_rate"] = "input_rate"
FASTEST: Literal["fastest"] = "fastest"
"""Throughput target: the highest rate that the machine can process, for finite inputs. It has no bound."""
Target = float | Literal["input_rate", "fastest"]
MAX_TOGETHER = 8
"""Maximum number of objectives of one app: each kind once."""
MAX_TARGET = 1e9
"""Largest accepted target, in milliseconds or items/s; a larger one must be a typing error."""


class SloStatus(StrEnum):
    """Values of ``slo_status`` in the API."""

    MET = "met"
    VIOLATED = "violated"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Slo:
    """An objective as requested, stored and shown; ``target`` is in milliseconds for latency, and items/s,
    ``"input_rate"`` or ``"fastest"`` for throughput. :mod:`control.objectives` judges measurements by it."""

    metric: Metric
    target: Target
    threshold: float = 0.2
    statistic: Statistic = "mean"
    share: float | None = None
    """For statistic ``share``: share of the items that must be within the target, 0.5 … 0.999."""
    also: "tuple[Slo, ...]" = ()
    """Further objectives that must be met at the same time; they have no ``also`` and no budget."""
    budget: Budget | None = None
    """Limits of resources for all objectives together; ``None``: unlimited."""

    @property
    def each(self) -> "tuple[Slo, ...]":
        """All objectives, one by one, without the budget."""
        return (replace(self, also=(), budget=None), *self.also) if self.also or self.budget else (self,)

    @property
    def limits(self) -> Budget:
        """The budget; without one, a budget without limits."""
        return self.budget or FREE

    @property
    def quantile(self) -> float | None:
        """The quantile of the latencies that is judged; ``None``: their mean. For statistic ``share`` it is the share,
        as a share of the items is within a time if that quantile is."""
        if self.statistic == "share":
            return SHARE if self.share is None else self.share
        return QUANTILES.get(self.statistic)

    @property
    def share_asked(self) -> float | None:
        """The share of the first objective with statistic ``share``; ``None`` if there is none."""
        return next((each.quantile for each in self.each if each.statistic == "share"), None)

    @property
    def measured(self) -> str:
        """The measured quantity as text: ``latency``, ``p95 latency``, ``latency of 95 % of the items``."""
        if self.statistic == "share":
            return f"{self.metric} of {100 * (self.quantile or SHARE):g} % of the items"
        return self.metric if self.statistic == "mean" else f"{self.statistic} {self.metric}"

    @property
    def asked(self) -> str:
        """The objective as text, without the others: ``p95 latency ≤ 400 ms``, ``throughput ≥ the input rate``."""
        form = _FORMS[self.metric]
        if self.target == FASTEST:
            return "the highest throughput"
        target = "the input rate" if self.target == INPUT_RATE else f"{figure(float(self.target), 6)} {form.unit}"
        return f"{self.measured} {form.sign} {target}"


# --- checks and parser -----------------------------------------------------------------------------------------------


class SloError(RecomposeError):
    """An SLO was refused; carries every fault, with the name of the field as its path."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(fault.message for fault in self.faults))


def validated(slo: Slo) -> Slo:
    """Return ``slo`` itself. Raises: SloError that names every value out of range and the accepted values."""
    faults = [fault for each in slo.each for fault in (*_target_faults(each), *_other_faults(each))]
    faults += [*_together_faults(slo), *(budgets.faults(slo.budget) if slo.budget else ())]
    if faults:
        raise SloError(faults)
    return slo


def together(slos: Sequence[Slo], budget: Budget | None = None) -> Slo:
    """Combine ``slos`` into one SLO with a ``budget``. Raises: SloError, also for no SLO or the same kind twice."""
    if not slos:
        raise SloError([Fault("objectives", f"there is no objective; {_ACCEPTED}")])
    budget = None if budget is None or budget.free else budget
    return validated(replace(slos[0], also=tuple(slos[1:]), budget=budget))


@dataclass(frozen=True, slots=True)
class _Form:
    """The accepted values of an SLO of one metric."""

    units: Mapping[str, float]
    """Accepted units of a target, with the factor to the unit of ``Slo.target``."""
    unit: str
    sign: str
    spelled_out: str
    follows_input: bool
    statistics: tuple[str, ...]


_FORMS: Mapping[str, _Form] = {
    "latency": _Form({"ms": 1.0, "s": 1e3}, "ms", "≤", "milliseconds", False, get_args(Statistic)),
    "throughput": _Form({"/s": 1.0}, "items/s", "≥", "items/s", True, ("mean",)),
}
_ACCEPTED = (
    "accepted are latency=400ms, latency=0.4s, p95=400ms (p50, p99), share95=400ms (95 % of the items within it), "
    "throughput=10/s, throughput=input_rate and fastest"
)
_SIGNS = {"≤": "<=", "≥": ">=", "<": "<=", ">": ">="}
_NAMES = ("fastest", "latency", "throughput", "p50", "p95", "p99", "share95", "mean")
_SHARE = re.compile(r"share([\d.]*)")
_LEAST_SHARE, _MOST_SHARE = 0.5, 0.999
_NUMBER = r"([-+]?[\d.]+(?:e[-+]?\d+)?)"


def _together_faults(slo: Slo) -> Iterator[Fault]:
    kinds = [each.measured for each in slo.each]
    if slo.also and any(each.target == FASTEST for each in slo.each):
        yield Fault("objectives", "fastest has no bound, so it cannot be combined with other objectives")
    if len(kinds) > MAX_TOGETHER:
        yield Fault("objectives", f"{len(kinds)} objectives are too many; at most {MAX_TOGETHER} can hold together")
    for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        yield Fault("objectives", f"{kind} has two targets; give one of them, such as the stricter one")


def _target_faults(slo: Slo) -> Iterator[Fault]:
    target, form = slo.target, _FORMS.get(slo.metric, _FORMS["throughput"])
    if slo.metric not in _FORMS:
        yield Fault("metric", f"metric {slo.metric!r} is unknown; accepted are latency and throughput")
    if target in (INPUT_RATE, FASTEST):
        if not form.follows_input:
            yield Fault("target", f"target {target!r} is for throughput; latency needs milliseconds, such as 400")
    elif isinstance(target, bool) or not isinstance(target, int | float):
        yield Fault("target", f"target {target!r} is not a number above 0, 'input_rate' or 'fastest'")
    elif not 0 < target <= MAX_TARGET:
        limits = f"above 0 and at most {MAX_TARGET:,.0f}"
        yield Fault("target", f"target {target} must be a finite number of {form.spelled_out} {limits}")


def _other_faults(slo: Slo) -> Iterator[Fault]:
    if not 0 <= slo.threshold <= 1:
        yield Fault("threshold", f"threshold {slo.threshold} must be in [0, 1], such as 0.2 for 20 %")
    if slo.statistic not in get_args(Statistic):
        yield Fault("statistic", f"statistic {slo.statistic!r} is unknown; accepted are mean, p50, p95, p99 and share")
    elif slo.metric in _FORMS and slo.statistic not in _FORMS[slo.metric].statistics:
        yield Fault("statistic", f"statistic {slo.statistic!r} is for latency only; leave it out for throughput")
    if slo.share is not None and slo.statistic != "share":
        yield Fault("share", f"share {slo.share} needs statistic 'share'; the statistic is {slo.statistic!r}")
    elif slo.share is not None and not _LEAST_SHARE <= slo.share <= _MOST_SHARE:
        yield Fault("share", f"share {slo.share} must be in [{_LEAST_SHARE}, {_MOST_SHARE}], such as 0.95 for 95 %")


def parse_slo(text: str, *, threshold: float = 0.2, statistic: Statistic = "mean") -> Slo:
    """Parse an SLO from the command line: ``latency=400ms``, ``p95=400ms``, ``share95=400ms``, ``throughput=10/s`` or
    ``throughput=input_rate``.

    Raises: SloError with a sentence on the fault in ``text`` and the accepted forms.
    """
    metric, sign, target = ("throughput", "=", FASTEST) if text.strip() == FASTEST else _parted(text)
    share, shared = None, _SHARE.fullmatch(metric)
    if shared is not None:
        metric, statistic, share = "latency", "share", _share(text, shared[1])
    elif metric in get_args(Statistic):
        metric, statistic = "latency", cast(Statistic, metric)
    if metric not in _FORMS or not sign:
        begins = f"it must begin with latency=, p95= or throughput={did_you_mean(metric, _NAMES)}"
        raise _unreadable(text, begins if sign else "it has no sign; write = before the target")
    if sign not in ("=", _SIGNS[_FORMS[metric].sign]):
        raise _unreadable(text, f"a {metric} is {_FORMS[metric].sign} its target, not {sign}")
    if target in (INPUT_RATE, "input", FASTEST):
        word = FASTEST if target == FASTEST else INPUT_RATE
        return validated(Slo(cast(Metric, metric), word, threshold, statistic))
    value = _quantity(text, target, _FORMS[metric].units)
    return validated(Slo(cast(Metric, metric), value, threshold, statistic, share))


def _parted(text: str) -> tuple[str, str, str]:
    """Split a text such as ``p95<=400ms`` into name, sign and target; the sign ``=`` fits any metric."""
    found = re.search(r"<=|>=|[=≤≥<>]", text)
    if found is None:
        return text.strip(), "", ""
    sign = found[0]
    return text[: found.start()].strip(), _SIGNS.get(sign, sign), text[found.end() :].strip()


def _share(text: str, percent: str) -> float:
    """Return 0.95 for ``share95``, and the default ``SHARE`` for ``share`` alone."""
    try:
        return round(float(percent) / 100, 6) if percent else SHARE
    except ValueError:
        raise _unreadable(text, f"{percent!r} is not a percentage") from None


def _quantity(text: str, target: str, units: Mapping[str, float]) -> float:
    match = re.fullmatch(_NUMBER + r"\s*(\S*)", target)
    if match is None:
        raise _unreadable(text, f"{target!r} is not a number with a unit")
    number, unit = match.groups()
    if unit not in units:
        given = f"unit {unit!r}" if unit else f"{target!r} has no unit; it"
        raise _unreadable(text, f"{given} must be {' or '.join(units)}")
    try:
        return float(number) * units[unit]
    except ValueError:
        raise _unreadable(text, f"{number!r} is not a number") from None


def _unreadable(text: str, why: str) -> SloError:
    return SloError([Fault("slo", f"SLO {text!r} is not understood: {why}; {_ACCEPTED}")])


# --- verdicts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an SLO's check. ``value`` and ``bound`` in the unit of the target, ``None`` if unknown."""

    status: SloStatus
    reason: str
    value: float | None = None
    bound: float | None = None
    slack: float | None = None
    """Distance to the bound as a ratio of it: 0.25 is a quarter to spare, below 0 is a violation."""


def differ(value: float, reference: float, threshold: float = 0.2) -> bool:
    """Return True if ``value`` differs from ``reference`` by more than ``threshold``, as a share of it.

    Vogel et al., section 3.2, step 2.
    """
    return abs(value - reference) > threshold * abs(reference)
