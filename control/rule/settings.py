"""The parameters of the rule. Decision record 0045 shows the effect of half and double each parameter."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """The parameters of the rule. They were chosen on the training part of the gym."""

    futures: int = 32
    """Number of possible futures of the stream on which plans are compared, the same for all plans."""
    steps: int = 20
    """Number of steps of each future."""
    similar: float = 0.35
    """Largest distance between similar moments, over the logarithms of rate, rise and work per item."""
    fast_s: float = 1.0
    """The present rate is a mean over this time, plus …"""
    fast_items: float = 8.0
    """… the time in which this many items arrive."""
    slow_s: float = 20.0
    """Averaging time of the slow rate; the present rate divided by the slow rate is the rise."""
    service_items: float = 30.0
    """Number of items over which a stage's time per item is averaged."""
    least_price: float = 0.4
    """Lowest price of a late item, in units of one item's work."""
    usual_price: float = 3.0
    """Price at the start, before the share of late items in the objective's window is known."""
    steepness: float = 4.5
    """Increase of the price's logarithm by the time the allowed late items that are aimed at are used up."""
    used_share: float = 0.5
    """Share of the allowed late items that is aimed at; the rest is a reserve for events that no future contains."""
    dual_step: float = 0.005
    """Rate of the dual ascent, 1/s: a window of five minutes that uses up its aim doubles the price."""
    fall: float = 0.25
    """Rate of a fall of the price, as a share of ``dual_step``: a good window does not make up for a missed one."""
    start_share: float = 1.3
    """The horizon is this multiple of a worker's start time (some take longer than the mean), plus the bound, plus …"""
    beyond_s: float = 1.0
    """… this time for the next change to take effect."""
    change: float = 2.0
    """Fixed cost of a change of the composition, in worker-seconds."""
    held_s: float = 10.0
    """A worker is released if it was not needed for this long."""
    calm_after_s: float = 60.0
    """A stream that has not changed for this long is calm: it is assumed to continue as it is. A worker is then
    released if, for this long again, it was not needed in the long run."""
    catch_up_s: float = 60.0
    """Longest time after the first choice in which late items do not raise the price: they may have waited for it."""
    regroup: float = 0.15
    """Share of the workers' cost that other groups must save, and of the late items any change without more workers."""
