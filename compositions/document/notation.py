"""Until all importers have moved on: ``compositions.notation``."""

from compositions.notation import DEFAULT_REPLICAS, format_notation, parse, short_notation

__all__ = ["DEFAULT_REPLICAS", "format_notation", "parse", "short_notation"]
