"""Estimate the time that a composition takes to drain, i.e. to finish its items (Vogel et al., section 3.3, after
Jacobson and Karels' TCP timer)."""

from collections import deque
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class DrainEstimate:
    """Smoothed drain time and its mean deviation, seconds."""

    srtt_s: float
    rttvar_s: float

    @classmethod
    def first(cls, sample_s: float) -> "DrainEstimate":
        """Return the estimate from the first sample, with half of it as deviation (RFC 6298, 2.2)."""
        return cls(sample_s, sample_s / 2)

    def updated(self, sample_s: float) -> "DrainEstimate":
        """Return the updated estimate, with gains 1/8 for the mean and 1/4 for the deviation (Jacobson and Karels)."""
        error_s = sample_s - self.srtt_s
        return DrainEstimate(self.srtt_s + error_s / 8, self.rttvar_s + (abs(error_s) - self.rttvar_s) / 4)

    @property
    def bound_s(self) -> float:
        """Upper bound that a drain is expected to meet: srtt + 4 rttvar, in seconds."""
        return self.srtt_s + 4 * self.rttvar_s


@dataclass(frozen=True, slots=True)
class DrainRecord:
    """One undisturbed drain: the estimate when it began and the actual time, in seconds."""

    mean_s: float
    bound_s: float
    actual_s: float

    @property
    def error_ratio(self) -> float:
        """Relative error of the estimate: |mean - actual| / actual."""
        return abs(self.mean_s - self.actual_s) / self.actual_s


@dataclass(frozen=True, slots=True)
class DrainStatus:
    """The values of ``drain`` in ``/status``, in seconds; ``None`` means not measured."""

    estimate_s: float | None
    srtt_s: float | None
    rttvar_s: float | None
    last_actual_s: float | None
    last_error_ratio: float | None
    count: int


class DrainEstimator:
    """The drain estimate of the active composition, its back-off, and a log of past drains with their errors.

    Order of calls: ``sample`` repeatedly; at a switch ``begin``, ``overdue`` each time the bound has passed, ``end``,
    and ``restart`` when another composition is active.

    Samples between drains are predictions. Under a steady load they hardly differ, so rttvar would fall to 0 and every
    second drain would exceed srtt + 4 rttvar. So rttvar has a floor: the smoothed relative deviation of real drains
    from their estimate, with the same gain of 1/4, like the clock granularity G in RFC 6298 (2.3). There is no floor
    before the first real drain, nor if the estimate is as published (``floored`` is false). There a drain lasts as long
    as its estimate, so the formula's own errors must not lengthen it.
    """

    LOG = 100
    CALIBRATION_GAIN = 0.25
    CALIBRATION_LIMIT = 2.0

    def __init__(self, *, floored: bool = True) -> None:
        self._floored = floored
        self._estimate: DrainEstimate | None = None
        self._expected: DrainEstimate | None = None
        self._backoff = 1
        self._log: deque[DrainRecord] = deque(maxlen=self.LOG)
        self._count = 0
        self.calibration = 1.0
        """Learned ratio of actual to expected drain time, between 1/2 and 2; multiply samples by it."""
        self._deviation: float | None = None

    @property
    def draining(self) -> bool:
        return self._expected is not None

    @property
    def mean_s(self) -> float | None:
        """The expected drain time srtt, in seconds; frozen while draining; None before the first sample."""
        return None if self._current is None else self._current.srtt_s

    @property
    def estimate_s(self) -> float | None:
        """The bound srtt + 4 rttvar in seconds, doubled each time that the drain in progress was overdue."""
        return None if self._current is None else self._current.bound_s * self._backoff

    @property
    def log(self) -> tuple[DrainRecord, ...]:
        """The latest undisturbed drains, oldest first."""
        return tuple(self._log)

    def sample(self, sample_s: float | None) -> None:
        """Update the estimate; ``None`` (nothing in flight) and samples while draining are ignored."""
        if sample_s is not None and not self.draining:
            self._take(sample_s)

    def begin(self, sample_s: float | None = None) -> DrainEstimate | None:
        """Begin a drain: freeze and return the estimate; ``None`` if there was no sample.

        A ``sample_s`` of this moment, if given, replaces the smoothed mean, and the deviation is scaled in proportion.
        The smoothed mean of Jacobson and Karels is over all moments. With few items in flight, their samples differ by
        more than the mean.
        """
        self._expected = self._estimate if sample_s is None else self._scaled_to(sample_s)
        return self._expected

    def _scaled_to(self, sample_s: float) -> DrainEstimate:
        known = self._estimate or DrainEstimate.first(sample_s)
        ratio = max(known.rttvar_s / known.srtt_s if known.srtt_s > 0 else 0.5, self._deviation or 0.0)
        return DrainEstimate(sample_s, ratio * sample_s)

    def overdue(self) -> float | None:
        """Back off because the drain exceeded its estimate; return the doubled estimate (RFC 6298, 5.5)."""
        self._backoff *= 2
        return self.estimate_s

    def end(self, actual_s: float | None) -> None:
        """End the drain, which took ``actual_s``; ``None``: it was disturbed or cut short, so no sample (Karn)."""
        expected, self._expected = self._expected, None
        self._backoff = 1
        if actual_s is not None and actual_s > 0:
            self._take(actual_s)
            if expected is not None:
                self._learn(DrainRecord(expected.srtt_s, expected.bound_s, actual_s))

    def restart(self) -> None:
        """Start anew with the first sample of another active composition. Log and calibration stay."""
        self._estimate = None

    def status(self) -> DrainStatus:
        current = self._current
        last = self._log[-1] if self._log else None
        return DrainStatus(
            estimate_s=self.estimate_s,
            srtt_s=self.mean_s,
            rttvar_s=current.rttvar_s if current else None,
            last_actual_s=last.actual_s if last else None,
            last_error_ratio=last.error_ratio if last else None,
            count=self._count,
        )

    @property
    def _current(self) -> DrainEstimate | None:
        return self._expected if self._expected is not None else self._estimate

    def _take(self, sample_s: float) -> None:
        taken = DrainEstimate.first(sample_s) if self._estimate is None else self._estimate.updated(sample_s)
        floor_s = (self._deviation or 0.0) * taken.srtt_s
        self._estimate = replace(taken, rttvar_s=max(taken.rttvar_s, floor_s))

    def _learn(self, record: DrainRecord) -> None:
        self._log.append(record)
        self._count += 1
        if self._floored and record.mean_s > 0:
            deviation = abs(record.actual_s - record.mean_s) / record.mean_s
            known = deviation if self._deviation is None else self._deviation
            self._deviation = known + (deviation - known) / 4
            learned = self.calibration * (record.actual_s / record.mean_s) ** self.CALIBRATION_GAIN
            self.calibration = min(max(learned, 1 / self.CALIBRATION_LIMIT), self.CALIBRATION_LIMIT)
