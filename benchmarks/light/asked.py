"""What a benchmark of a light stream, with peers, takes on its command line."""

from __future__ import annotations

import argparse
from pathlib import Path


def asked(doc: str | None) -> argparse.Namespace:
    """``doc``: of the benchmark; its first line says what it is."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("--quick", action="store_true", help="one short round instead of three long ones")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="where peers are installed, if not here")
    parser.add_argument("--items", type=_items, default="auto", help="of ours in a bundle: a number, or auto")
    return parser.parse_args()


def _items(text: str) -> int | str:
    return text if text == "auto" else int(text)
