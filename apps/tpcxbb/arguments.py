"""What is said on the command line of tables that are to be made up."""

from __future__ import annotations

import argparse
from pathlib import Path

from apps.tpcxbb.generate import Plan


def add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="where the tables are written")
    for name, kind in (("seed", int), ("rows", int), ("hours", float), ("items", int), ("users", int)):
        default = getattr(Plan, name)
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{default} unless it is said")
    parser.add_argument("--form", choices=["parquet", "csv"], default="parquet")


def plan_of(given: argparse.Namespace) -> Plan:
    return Plan(given.seed, given.rows, given.hours, given.items, given.users)
