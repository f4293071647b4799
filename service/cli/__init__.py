"""The command line ``recompose``. Exit codes: 0 done, 1 failed or faults found, 2 usage; ``run`` has more."""

from service.cli.main import main

__all__ = ["main"]
