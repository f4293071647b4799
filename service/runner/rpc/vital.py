"""The state of a runner that does not answer, as seen from outside."""

from enum import Enum


class Vital(Enum):
    REACHABLE = "reachable"
    """The machine answers, so a missing answer is due to the runner itself."""
    CUT_OFF = "cut off"
    """The machine does not answer; the runner may be healthy."""
    DEAD = "dead"
    """The process has ended, or Ray considers it or its machine lost."""
