"""The mixed run over a network: workers are on two machines 1 ms apart, and any of them is killed.

    python tests/hosts/hosts.py python tests/hosts/mixed.py [--minutes 5] [--seed 1] [--rate 5000] [--json]

See ``lab/benchmarks/mixed_run.py`` for what is done and compared.
"""

from __future__ import annotations

import os
import sys

import click
from hosts import FAR, kill

from lab.benchmarks.harness import metadata
from lab.benchmarks.mixed_run import rounds, tell_of
from runtime.pools.ray import cluster
from service.schemas.figures import Worker

killed_on = {"near": 0, "far": 0}


def killed_there(worker: Worker) -> None:
    """By the number that it has on its machine."""
    kill(worker.pid, worker.node)
    killed_on["far" if worker.node == FAR else "near"] += 1


@click.command()
@click.option("--minutes", default=5.0)
@click.option("--seed", default=1)
@click.option("--rate", default=5000.0, help="items per second that are offered")
@click.option("--json", "as_json", is_flag=True)
def main(minutes: float, seed: int, rate: float, as_json: bool) -> None:
    """Prints a line an app, and exits with 1 where any line differs."""
    about = metadata()
    cluster.connect(os.environ["RAY_ADDRESS"])
    runs = rounds(60 * minutes, seed, rate, killed_there)
    kills = {f"killed {where}": str(number) for where, number in killed_on.items()}
    sys.exit(tell_of(runs, {**about, **kills}, as_json))


if __name__ == "__main__":
    main()
