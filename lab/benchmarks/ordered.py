"""Make figures 8 to 14 of Prasaad et al. in virtual time: pipelines, schedulers, worklists and ways to send.

    python -m lab.benchmarks.ordered [--figure 9] [--inputs 10000] [--out DIR] [--record]

It writes a CSV file and a picture for each figure; ``--record`` puts the tables where ``lab.papers.prasaad.page`` reads
them. Rings, locks and queues with threads that contend: ``lab.benchmarks.contention``.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from socket import socketpair
from typing import Annotated, Literal

from lab.benchmarks.harness import Rows, main, progress
from lab.papers.pictures import SHAPES, draw
from lab.papers.prasaad.figures import Plan, all_of
from lab.papers.prasaad.operators import read_costs
from lab.papers.prasaad.page import RECORDED
from runtime.dispatch.keys import StatesByKey
from runtime.pools.ray.language import packed, unpacked

FigureName = Literal["8", "8-ask", "8-source", "ct", "9", "moved", "10", "11", "11-keys", "12", "13", "14"]
STATE_KEYS = (10, 100, 1000, 10_000)
"""Keys of a partition whose state is moved: a thousand to a million in all, with 100 partitions."""
SOCKET_BYTES = 65_536
COSTS = Path(__file__).with_name("query_costs.json")
"""The cost of each stage of the queries, row by row in one thread: the best of three rounds."""


def state_move_us(keys: int) -> float:
    """Measure what it costs to bring a partition of so many keys, a state of 100 bytes each, to another worker: pack,
    send through a socket, unpack and unpickle, as the dispatcher and a worker do."""
    kept = {0: {f"key {number}": pickle.dumps(bytes(100), 5) for number in range(keys)}}
    took_s = []
    reader, writer = socketpair()
    with reader, writer:
        for _ in range(9):
            began_s = time.perf_counter()
            contents, frame = packed({"stage": kept})
            sent = memoryview(pickle.dumps(contents, 5) + frame)
            while sent:  # both ends are in this process: send no more at a time than a socket holds
                sent = sent[writer.send(sent[:SOCKET_BYTES]) :]
                reader.recv(SOCKET_BYTES)
            states = StatesByKey(1)
            read = {key: pickle.loads(state) for key, state in unpacked(contents, frame)["stage"][0].items()}
            states.put(read, lambda read=read: dict.fromkeys(read, 0))  # type: ignore[misc]
            took_s.append(time.perf_counter() - began_s)
    return 1e6 * min(took_s)  # other programs use this machine too


def virtual_figures(plans: Iterable[Plan], inputs: int, out: Path, folders: Sequence[Path]) -> Rows:
    """Make figures, one after the other: a picture of each in ``out``, a table in each of ``folders``."""
    rows = []
    for plan in plans:
        began_s = time.process_time()
        figure = plan.made()
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            figure.write(folder)
        if plan.name in SHAPES:
            draw(figure, out / f"figure-{figure.name}.png")
        rows.append({"figure": plan.name, "cases": len(figure.rows), "CPU, s": time.process_time() - began_s})
        progress(f"figure {figure.name}: {len(figure.rows)} cases")
    return Rows(f"written to {out}, {inputs:,} inputs a run", rows)


def measure(
    figure: Annotated[tuple[FigureName, ...], "figures to make (default: all)"] = (),
    out: Path = Path("ordered"),
    record: Annotated[bool, "also write the tables that lab.papers.prasaad.page reads"] = False,
    inputs: Annotated[int, "of each run"] = 10_000,
    costs: Annotated[Path, "file like query_costs.json"] = COSTS,
) -> Iterator[Rows]:
    prices = {keys: round(state_move_us(keys)) for keys in STATE_KEYS}
    yield Rows("moving a partition's state to another worker", [{"keys": k, "µs": us} for k, us in prices.items()])
    every = all_of(read_costs(costs), inputs, (0, *sorted(prices.values())))
    chosen = [plan for plan in every if not figure or plan.name in figure]
    yield virtual_figures(chosen, inputs, out, [out, RECORDED] if record else [out])


if __name__ == "__main__":
    main(measure)
