"""Content-based image search, after PARSEC's Ferret."""

from apps.ferret.app import Ferret
from apps.ferret.options import FerretOptions

__all__ = ["Ferret", "FerretOptions"]
