"""Content-based image search, after PARSEC's Ferret."""

from apps.ferret.app import Ferret, FerretOptions

__all__ = ["Ferret", "FerretOptions"]
