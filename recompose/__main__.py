"""``recompose`` and ``python -m recompose``: the command line."""

import os
import sys

from service.cli import main as command_line


def main() -> None:
    """What an app imports of its project lies where the command is run, as with ``python -m``, and as Ray's workers
    have it; it comes last, so that it hides nothing."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    command_line()


if __name__ == "__main__":
    main()
