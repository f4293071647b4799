"""The command line ``recompose``. Exit codes: 0 done, 1 the run failed or a check found faults, 2 usage."""

from service.cli.main import main

__all__ = ["main"]
