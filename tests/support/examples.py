"""The number of examples that hypothesis draws: three of ten for every change, all before a release."""

import os
from math import ceil
from typing import Any

from hypothesis import settings

SHARE = float(os.environ.get("RECOMPOSE_EXAMPLES", "0.3"))
"""Set to 1 by lane ``long``."""


def examples(count: int, **more: Any) -> settings:
    """Return settings with this share of ``count`` examples, and no limit of time: that is the machine's affair."""
    return settings(max_examples=ceil(SHARE * count), deadline=None, **more)
