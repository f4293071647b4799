"""Settings of the manager: grouped, frozen, each with meaning, unit, range and the reason for its default.

All groups are validated together, so that one error names every value out of range.
"""

from dataclasses import dataclass

from compositions.settings import Checked, ranged
from profiler.snapshot import LatencyFrom
from runtime.dispatch.events import SwitchStyle


@dataclass(frozen=True, slots=True)
class Measuring:
    """The conditions under which a measurement is good enough to decide on."""

    min_samples: int = ranged(10, 1, 100_000)
    """Deliveries (and timings of each stage) below which nothing is decided. Ten know a mean to a third of its cv."""
    patience_samples: int = ranged(3, 1, 100_000)
    """Samples that suffice after ``patience_s``: an app that takes seconds per item gives no more than three."""
    patience_s: float = ranged(10.0, 0, 3600, "s")
    """After this long without a switch, ``patience_samples`` suffice. One check interval of Vogel et al."""
    min_window_s: float = ranged(1.0, 0, 600, "s")
    """Shortest window to judge an SLO on. Four snapshots; shorter windows are dominated by arrivals in bursts."""
    backlog_patience_s: float = ranged(30.0, 0, 3600, "s")
    """A backlog that will be gone within this time is no violation by the composition that works it off."""
    latency_from: LatencyFrom = LatencyFrom.READ
    """Start of a latency: DUE counts the wait of users and what was missed; READ, as in the papers, does not."""
    outcome_s: float = ranged(10.0, 0.5, 3600, "s")
    """Window after which a decision's prediction is compared with what was measured: one check interval."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The times between looks, and the pauses that keep the manager from flapping."""

    check_interval_s: float = ranged(10.0, 0.1, 3600, "s")
    """Stable phase: time between checks (Vogel et al., section 3.2, step 6)."""
    cool_down_s: float = ranged(2.0, 0, 600, "s")
    """After a switch nothing is judged for this long: the first results still carry the old composition's wait."""
    change_ratio: float = ranged(0.2, 0.01, 10)
    """Input rate or service time changed when it contrasts by more than this (Vogel et al., section 3.2, step 2)."""
    down_after_s: float = ranged(10.0, 0, 3600, "s")
    """For strategies that do not watch the stream: an input rate has fallen when it was lower for this long."""
    worker_start_s: float = ranged(1.5, 0, 600, "s")
    """Time that a worker takes to start, until it is measured: 1 to 2 s on Ray, also if several start together."""
    recovery_s: float = ranged(3.0, 0, 600, "s")
    """After a lost worker nothing is judged for this long: starting another takes 1 to 2 s."""
    switch_limit_s: float = ranged(120.0, 1, 3600, "s")
    """Time after which a switch counts as failed if the dispatcher no longer works on it and never said how it ended.
    While the dispatcher works on it, its own limits count: ``prepare_limit_s``, ``drain_limit_s``."""
    failed_switch_pause_s: float = ranged(60.0, 0, 86_400, "s")
    """A composition whose switch failed is left alone for this long: causes such as missing memory last minutes."""


@dataclass(frozen=True, slots=True)
class Trials:
    """The length of trials."""

    trial_s: float = ranged(5.0, 0.1, 600, "s")
    """Strategy ``vogel``: time a shortlisted composition is tried (Vogel et al., section 3.2, step 4)."""
    pdp21_trial_s: float = ranged(1.0, 0.1, 600, "s")
    """Strategy ``pdp21``: time every composition is tried (the same step, on their earlier work)."""
    bottleneck_threshold: float = ranged(0.2, 0, 10)
    """A bottleneck's service time is this much above all others (Vogel et al., section 3.2, step 1)."""


@dataclass(frozen=True, slots=True)
class Regulation:
    """Strategies ``spar`` and ``two-sided``; defaults are those found best for the former (Vogel et al. 2018)."""

    scaling_factor: int = ranged(1, 1, 64)
    """Strategy ``spar``: replicas added or removed at a step. 1 is the most stable, 2 follows faster (section 5)."""
    latency_band: float = ranged(0.2, 0, 0.99)
    """Strategy ``spar``: a latency so far below the target, as a share of it, is a reason for more (section 5)."""
    control_step_s: float = ranged(1.0, 0.1, 3600, "s")
    """Time between two looks (section 4)."""
    threads: int = ranged(0, 0, 100_000)
    """Threads of the machine (0: as many as cores; the paper's has two per core): the most replicas are two fewer."""


GONE = frozenset(
    {
        *("model_trial_s", "model_trials", "uncertainty", "confidence", "up_margin", "down_margin"),
        *("bias_limit", "bias_half_life_s", "reported", "vote_interval_s", "votes"),
    }
)
"""Settings of the strategy that was the default until 0.2: they mean nothing any more, and are refused from 0.3 on."""


@dataclass(frozen=True, slots=True)
class Settings(Checked):
    """All settings of the manager. Raises: SettingsError when any is out of range."""

    measuring: Measuring = Measuring()
    rhythm: Rhythm = Rhythm()
    trials: Trials = Trials()
    regulation: Regulation = Regulation()
    style: SwitchStyle = SwitchStyle.DRAIN
    """How the runner goes from one composition to another: what it does in place is priced so, and called a resize."""
