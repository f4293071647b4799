"""Settings of batch controllers (defaults as advised by Leonarczyk 2024, section 5.4) and of schedulers."""

from dataclasses import dataclass

from compositions.settings import Checked, SettingsError, check, one_of, ranged


@dataclass(frozen=True, slots=True)
class SchedulerSettings(Checked):
    """Settings of the schedulers of workers (Prasaad et al. 2017). Raises: SettingsError if any is out of range."""

    slice_s: float = ranged(0.001, 1e-6, 60, "s")
    """Time that a worker stays at an operator before it asks the scheduler again (``s`` in section 6). A longer time
    means fewer requests, but a later change to an operator that needs the worker."""
    window_s: float = ranged(0.1, 1e-5, 3600, "s")
    """``ct``: window over which throughput is measured (section 6.4). The default is a hundred slices, so that one
    worker's turn hardly changes it."""
    capacity: int = ranged(1000, 1, 100_000_000, "tuples")
    """``qst``: maximum number of tuples that wait behind all operators together (``C`` of equation 1)."""
    least_waiting: int = ranged(1, 1, 1_000_000, "tuples")
    """``lp``: an operator with fewer waiting tuples is passed over. The paper uses 1 (section 6.2)."""
    selectivity: str = one_of("corrected", "printed")
    """``ct``: throughput is divided by the selectivities before it; ``printed``, as in equation 3: by its own too."""
    ahead: float = ranged(1.0, 0.01, 1000, "slices")
    """``kanban``: work that may wait for each worker that the next operator can have."""
    half_life: int = ranged(1000, 1, 100_000_000, "tuples")
    """Number of tuples after which a measurement counts half in the estimates of costs and selectivities."""


@dataclass(frozen=True, slots=True)
class LatencyAim:
    """The target for the latency of a bundle."""

    target_ms: float = ranged(3.0, 1e-3, 3.6e6, "ms")
    """Target of the latency; the default is the thesis's."""
    threshold: float = ranged(0.05, 0, 0.99)
    """Largest deviation, as a share of the target, that counts as on target: 5 %, the strictest of the thesis."""

    @property
    def target_s(self) -> float:
        return self.target_ms / 1e3


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bounds of a bundle, in items."""

    least: int = ranged(1, 1, 1_000_000)
    most: int = ranged(1000, 1, 1_000_000)
    """Largest size, well above the 300 that the thesis's workload needs; memory has a limit of its own."""
    first: int = ranged(1, 1, 1_000_000)
    """Size before the first measurement; the only size of ``fixed``. One item at a time is safe."""

    def held(self, items: float) -> float:
        """Return ``items``, which may be infinite, clipped to the bounds."""
        return min(max(items, float(self.least)), float(self.most))


@dataclass(frozen=True, slots=True)
class Steps:
    """Settings of the controllers that change the size in steps; ``sample`` is also used by ``pid``."""

    step: float = ranged(10.0, 0.01, 100_000, "items")
    """The adaptation factor: 10 is advised at a threshold of 5 %, else 15 (section 5.4)."""
    sample: int = ranged(5, 1, 10_000)
    """Number of latencies that are averaged for a decision: 5 is advised (section 5.4), 1 hits more in the thesis."""


@dataclass(frozen=True, slots=True)
class Gains:
    """Gains of ``pid`` per decision; the defaults are the best of table 5.5."""

    kp: float = ranged(10.0, 0, 100_000)
    ki: float = ranged(15.0, 0, 100_000)
    kd: float = ranged(3.0, 0, 100_000)


@dataclass(frozen=True, slots=True)
class BatchSettings(Checked):
    """All settings of all batch controllers. Raises: SettingsError if any is out of range or if they contradict."""

    aim: LatencyAim = LatencyAim()
    sizes: Sizes = Sizes()
    steps: Steps = Steps()
    gains: Gains = Gains()

    def __post_init__(self) -> None:
        check(self)
        least, first, most = self.sizes.least, self.sizes.first, self.sizes.most
        if not least <= first <= most:
            raise SettingsError(f"least = {least}, first = {first}, most = {most}: must be least <= first <= most")
