"""Write the tables: ``python -m apps.tpcxbb FOLDER --rows 1000000 --hours 3 --form csv``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from apps.tpcxbb.generate import Plan
from apps.tpcxbb.tables import write
from compositions.errors import RecomposeError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m apps.tpcxbb", description="Generate sales and clicks of TPCx-BB.")
    parser.add_argument("folder", type=Path, help="where the tables are written")
    for name, kind in (("seed", int), ("rows", int), ("hours", float), ("items", int), ("users", int)):
        default = getattr(Plan, name)
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{default} unless it is said")
    parser.add_argument("--form", choices=["parquet", "csv"], default="parquet")
    given = parser.parse_args()
    try:
        write(given.folder, Plan(given.seed, given.rows, given.hours, given.items, given.users), given.form)
    except RecomposeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
