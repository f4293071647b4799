"""Five queries of TPCx-BB over clicks and sales, as pipelines with keyed states (Prasaad et al., table 1)."""

from apps.tpcxbb.q1 import Q1, Q1Arrow
from apps.tpcxbb.q15 import Q15, Q15Arrow

__all__ = ["Q1", "Q15", "Q1Arrow", "Q15Arrow"]
