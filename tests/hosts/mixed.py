"""Play the mixed run of ``lab/benchmarks/mixed_run.py`` on two machines 1 ms apart.

    python tests/hosts/hosts.py python tests/hosts/mixed.py [--minutes 5] [--seed 1] [--rate 5000] [--json]

Any worker may be killed.
"""

import os
from collections.abc import Iterator
from typing import Annotated

from hosts import FAR, kill

from lab.benchmarks.harness import Rows, Seed, main
from lab.benchmarks.mixed_run import rounds
from runtime.pools.ray import cluster
from service.schemas.figures import Worker

killed_on = {"near": 0, "far": 0}


def killed_there(worker: Worker) -> None:
    """By the number that it has on its machine."""
    kill(worker.pid, worker.node)
    killed_on["far" if worker.node == FAR else "near"] += 1


def measure(
    minutes: float = 5.0, seed: Seed = 1, rate: Annotated[float, "items/s that are offered"] = 5000.0
) -> Iterator[Rows]:
    cluster.connect(os.environ["RAY_ADDRESS"])
    yield from rounds(60 * minutes, seed, rate, killed_there)
    yield Rows("workers killed, by machine", [killed_on])


if __name__ == "__main__":
    main(measure)
