"""Block-wise compression, after SPBench's Bzip2 (pbzip2)."""

from apps.bzip2.app import BlockOptions, Bunzip2, Bzip2

__all__ = ["BlockOptions", "Bunzip2", "Bzip2"]
