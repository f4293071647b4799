"""Settings of the manager: grouped, frozen, each with meaning, unit, range and the reason for its default.

All groups are validated together, so that one error names every value out of range.
"""

from dataclasses import dataclass

from compositions.settings import Checked, ranged
from profiler.snapshot import LatencyFrom
from runtime.dispatch.events import SwitchStyle


@dataclass(frozen=True, slots=True)
class Measuring:
    """Settings of measurements: when there are enough samples to decide."""

    min_samples: int = ranged(10, 1, 100_000)
    """Minimum deliveries, and timings of each stage, for a decision. Ten samples give a mean to within cv / 3."""
    patience_samples: int = ranged(3, 1, 100_000)
    """Number of samples that suffice after ``patience_s``: an app that takes seconds per item gives hardly more."""
    patience_s: float = ranged(10.0, 0, 3600, "s")
    """Time without a switch after which ``patience_samples`` suffice: one check interval of Vogel et al."""
    min_window_s: float = ranged(1.0, 0, 600, "s")
    """Shortest window for checking an SLO: four snapshots. Shorter windows are dominated by bursts of arrivals."""
    backlog_patience_s: float = ranged(30.0, 0, 3600, "s")
    """Longest expected time to clear a backlog for which the composition is not blamed for a missed SLO."""
    latency_from: LatencyFrom = LatencyFrom.READ
    """Start of a latency: DUE, the due time, adds users' waits and missed items; READ, as in the papers, does not."""
    outcome_s: float = ranged(10.0, 0.5, 3600, "s")
    """Time after a decision at which its prediction is compared with measurements: one check interval."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The intervals of checks, and the pauses that keep the manager from flapping."""

    check_interval_s: float = ranged(10.0, 0.1, 3600, "s")
    """Stable phase: time between checks (Vogel et al., section 3.2, step 6)."""
    cool_down_s: float = ranged(2.0, 0, 600, "s")
    """Pause of decisions after a switch: the first results still include the wait in the old composition."""
    change_ratio: float = ranged(0.2, 0.01, 10)
    """Smallest relative difference that counts as a change of the input rate (Vogel et al., section 3.2, step 2)."""
    down_after_s: float = ranged(10.0, 0, 3600, "s")
    """Time that a fall of the input rate must last to count, for strategies that do not model the stream."""
    worker_start_s: float = ranged(1.5, 0, 600, "s")
    """Assumed start time of a worker until it is measured: 1 to 2 s on Ray, also if several start together."""
    recovery_s: float = ranged(3.0, 0, 600, "s")
    """Pause of decisions after a worker was lost: starting another takes 1 to 2 s."""
    switch_limit_s: float = ranged(120.0, 1, 3600, "s")
    """Time after which a switch counts as failed if the dispatcher no longer works on it and never reported its end.
    While the dispatcher works on it, its own limits apply: ``prepare_limit_s``, ``drain_limit_s``."""
    failed_switch_pause_s: float = ranged(60.0, 0, 86_400, "s")
    """Time for which a composition is not chosen after a failed switch: causes such as missing memory last minutes."""


@dataclass(frozen=True, slots=True)
class Trials:
    """Settings of the strategies that try compositions."""

    trial_s: float = ranged(5.0, 0.1, 600, "s")
    """Strategy ``vogel``: duration of a trial of a shortlisted composition (Vogel et al., section 3.2, step 4)."""
    pdp21_trial_s: float = ranged(1.0, 0.1, 600, "s")
    """Strategy ``pdp21``: duration of a trial of each composition (the same step, on their earlier work)."""
    bottleneck_threshold: float = ranged(0.2, 0, 10)
    """Relative difference of a bottleneck's service time to all others (Vogel et al., section 3.2, step 1)."""


@dataclass(frozen=True, slots=True)
class Regulation:
    """Settings of ``spar`` and ``two-sided``; the defaults were found best for ``spar`` (Vogel et al. 2018)."""

    scaling_factor: int = ranged(1, 1, 64)
    """Strategy ``spar``: replicas added or removed at a step. 1 is the most stable, 2 follows faster (section 5)."""
    latency_band: float = ranged(0.2, 0, 0.99)
    """Strategy ``spar``: distance below the target, as a share of it, beyond which replicas are added (section 5)."""
    control_step_s: float = ranged(1.0, 0.1, 3600, "s")
    """Time between two control steps (section 4)."""
    threads: int = ranged(0, 0, 100_000)
    """Threads of the machine (0: as many as cores; the paper's has two per core); the most replicas are two fewer."""


GONE = frozenset(
    {
        *("model_trial_s", "model_trials", "uncertainty", "confidence", "up_margin", "down_margin"),
        *("bias_limit", "bias_half_life_s", "reported", "vote_interval_s", "votes"),
    }
)
"""Settings of the default strategy until 0.2: they are ignored now, and refused from 0.3 on."""


@dataclass(frozen=True, slots=True)
class Settings(Checked):
    """All settings of the manager. Raises: SettingsError if any value is out of range."""

    measuring: Measuring = Measuring()
    rhythm: Rhythm = Rhythm()
    trials: Trials = Trials()
    regulation: Regulation = Regulation()
    style: SwitchStyle = SwitchStyle.DRAIN
    """Style of the runner's switches; it determines which changes are made in place, as a resize."""
