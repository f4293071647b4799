"""``recompose`` and ``python -m recompose``: the command line."""

import os
import sys

from service.cli import main as command_line


def main() -> None:
    """Run the command line. An app's imports are resolved in the current folder too, as with ``python -m`` and in Ray's
    workers; that folder comes last, so that it hides nothing."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    command_line()


if __name__ == "__main__":
    main()
