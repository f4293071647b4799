"""Write the tables: ``python -m apps.tpcxbb FOLDER --rows 1000000 --hours 3 --form csv``."""

import argparse
import sys

from apps.tpcxbb.generate import add_plan, plan_of
from apps.tpcxbb.tables import write
from compositions.errors import RecomposeError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m apps.tpcxbb", description="Generate sales and clicks of TPCx-BB.")
    add_plan(parser)
    given = parser.parse_args()
    try:
        write(given.folder, plan_of(given), given.form)
    except RecomposeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
