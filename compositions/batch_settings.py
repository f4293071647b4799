"""Settings of batch controllers and schedulers; the former follow the advice of Leonarczyk 2024, section 5.4."""

from dataclasses import dataclass

from compositions.settings import Checked, SettingsError, check, one_of, ranged


@dataclass(frozen=True, slots=True)
class SchedulerSettings(Checked):
    """Raises: SettingsError when any is out of range."""

    slice_s: float = ranged(0.001, 1e-6, 60, "s")
    """A worker stays at an operator for about this long before it asks again (``s`` in the paper, section 6): longer
    asks less often, and hears later that another operator needs it."""
    window_s: float = ranged(0.1, 1e-5, 3600, "s")
    """``ct``: throughputs are those since the beginning of the window (section 6.4). A hundred slices: what one worker
    does in a turn is small against it."""
    capacity: int = ranged(1000, 1, 100_000_000, "tuples")
    """``qst``: ``C`` of equation 1, what may wait behind all operators together."""
    least_waiting: int = ranged(1, 1, 1_000_000, "tuples")
    """``lp``: an operator with fewer is passed over. The paper names the choice and takes 1 (section 6.2)."""
    selectivity: str = one_of("corrected", "printed")
    """``ct``: throughput is divided by the selectivities before it or, as equation 3 is printed, by its own too."""
    ahead: float = ranged(1.0, 0.01, 1000, "slices")
    """``kanban``: what may wait for each worker that the next operator can have."""
    half_life: int = ranged(1000, 1, 100_000_000, "tuples")
    """Costs and selectivities are estimated from what was measured; a tuple counts half after so many more."""


@dataclass(frozen=True, slots=True)
class LatencyAim:
    """The target for the latency of a bundle."""

    target_ms: float = ranged(3.0, 1e-3, 3.6e6, "ms")
    """The thesis's target."""
    threshold: float = ranged(0.05, 0, 0.99)
    """A latency this far from the target, as a share of it, is on target. The strictest of the thesis: 5 %."""

    @property
    def target_s(self) -> float:
        return self.target_ms / 1e3


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bounds of a bundle, in items."""

    least: int = ranged(1, 1, 1_000_000)
    most: int = ranged(1000, 1, 1_000_000)
    """Well above the 300 that the thesis's workload needs; what a bundle may hold in memory is not decided here."""
    first: int = ranged(1, 1, 1_000_000)
    """Before anything was measured; the only size of ``fixed``. One item at a time can do no harm."""

    def held(self, items: float) -> float:
        """``items`` within the bounds; it may be infinite."""
        return min(max(items, float(self.least)), float(self.most))


@dataclass(frozen=True, slots=True)
class Steps:
    """Settings of the controllers that change the size in steps; ``sample`` is also used by ``pid``."""

    step: float = ranged(10.0, 0.01, 100_000, "items")
    """The adaptation factor: 10 is advised at a threshold of 5 %, else 15 (section 5.4)."""
    sample: int = ranged(5, 1, 10_000)
    """New latencies that a decision takes the mean of: 5 is advised (section 5.4), 1 hits more in the thesis."""


@dataclass(frozen=True, slots=True)
class Gains:
    """Settings of ``pid``, per decision; the best of table 5.5."""

    kp: float = ranged(10.0, 0, 100_000)
    ki: float = ranged(15.0, 0, 100_000)
    kd: float = ranged(3.0, 0, 100_000)


@dataclass(frozen=True, slots=True)
class BatchSettings(Checked):
    """All settings of all batch controllers. Raises: SettingsError when any is out of range, or they contradict."""

    aim: LatencyAim = LatencyAim()
    sizes: Sizes = Sizes()
    steps: Steps = Steps()
    gains: Gains = Gains()

    def __post_init__(self) -> None:
        check(self)
        least, first, most = self.sizes.least, self.sizes.first, self.sizes.most
        if not least <= first <= most:
            raise SettingsError(f"least = {least}, first = {first}, most = {most}: must be least <= first <= most")
