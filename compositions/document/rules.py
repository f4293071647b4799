"""Until all importers have moved on: ``compositions.rules``."""

from compositions.rules import MAX_REPLICAS

__all__ = ["MAX_REPLICAS"]
