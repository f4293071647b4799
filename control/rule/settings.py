"""The numbers of the rule, each with its meaning. What half and double of a number change says decision record 0045."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """The numbers of the rule. They were chosen on the training part of the gym."""

    futures: int = 32
    """Number of futures of the stream, the same for all compositions."""
    steps: int = 20
    """Steps of each future."""
    similar: float = 0.35
    """Largest difference, as a logarithm, of rate, rise and work per item between similar moments."""
    fast_s: float = 1.0
    """The present rate is a mean over this long, and …"""
    fast_items: float = 8.0
    """… over so many items more."""
    slow_s: float = 20.0
    """The rate beside which the present one rises or falls is a mean over this long."""
    service_items: float = 30.0
    """A stage's time for an item is a mean over so many items."""
    least_price: float = 0.4
    """Lowest price of a late item, in the work that an item takes."""
    usual_price: float = 3.0
    """Price at the start, before the objective's window says how many were late."""
    steepness: float = 4.5
    """Logarithm by which the price rises while the late items that may be are used up."""
    used_share: float = 0.5
    """Share of the allowed late items that is aimed at; the rest is for events that no future has foreseen."""
    dual_step: float = 0.005
    """Rate of the dual ascent, 1/s: a window of five minutes that uses up its aim doubles the price."""
    fall: float = 0.25
    """Share of this rate at which the price falls: a window without late items does not make up for a missed one."""
    start_share: float = 1.3
    """The horizon is this multiple of a worker's start time (some take longer than the mean), the bound, and …"""
    beyond_s: float = 1.0
    """… this time for the next change to take effect."""
    change: float = 2.0
    """Cost of any change, in worker-seconds."""
    held_s: float = 10.0
    """A worker is released if it was not needed for this long."""
    calm_after_s: float = 60.0
    """A stream that has not changed for this long is assumed to continue as it is; a worker is then released if it was
    not needed in the long run for this long again."""
    catch_up_s: float = 60.0
    """For this long after the first choice, items may be late because they waited for it."""
    regroup: float = 0.15
    """Share of the cost that other groups must save: workers load other stages, and the old groups drain."""
