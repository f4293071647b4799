"""Functions of known cost, for experiments and tests (the synthetic application of Vogel et al.)."""

from apps.synthetic.app import Synthetic

__all__ = ["Synthetic"]
