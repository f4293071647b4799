"""Numbers in sentences, as people write them."""

from __future__ import annotations

import math
from decimal import Decimal

GROUPED_FROM = 10_000
"""Thousands are set apart from five digits on."""


def figure(value: float, digits: int = 3) -> str:
    """So many significant digits and no exponent: ``12,500``, ``9.08``, ``0.0000123``."""
    text = f"{value:.{digits}g}"
    if "e" not in text and (abs(value) < GROUPED_FROM or not math.isfinite(value)):
        return text
    rounded = Decimal(text)
    return f"{rounded:,f}" if abs(rounded) >= GROUPED_FROM else f"{rounded:f}"
