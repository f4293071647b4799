"""Five queries of TPCx-BB over clicks and sales, as pipelines with keyed states (Prasaad et al., table 1)."""

from apps.tpcxbb.q1 import Q1, Q1Arrow
from apps.tpcxbb.q2 import Q2, Q2Arrow
from apps.tpcxbb.q3 import Q3, Q3Arrow
from apps.tpcxbb.q4 import Q4, Q4Arrow
from apps.tpcxbb.q15 import Q15, Q15Arrow

__all__ = ["Q1", "Q2", "Q3", "Q4", "Q15", "Q1Arrow", "Q2Arrow", "Q3Arrow", "Q4Arrow", "Q15Arrow"]
