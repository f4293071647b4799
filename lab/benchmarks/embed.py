"""Compare bundle size and replicas chosen by Recompose with the best manual choice, and with Ray Data's actor pool.

    python -m lab.benchmarks.embed [--device cuda] [--side 128] [--width 256] [--layers 4] [--seconds 3] [--json]

The app ``embed`` decodes photos on CPUs, and converts them to vectors on one CPU or one GPU. The source is always full.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import ray
import ray.data

from apps.embed import Embed, EmbedOptions
from compositions.model import Composition, Group, Pattern
from control.decisions import Mode
from lab.benchmarks.harness import Rows, cores, main, progress, ray_if
from lab.experiments.runs import delivered, delivering
from profiler.slo import FASTEST, Slo
from service.runner.rpc.requests import ReadStatus, SetBatching
from service.runner.runner import Runner
from service.schemas.spec import BatchingSpec, RunSpec

SETTLE_S = 1.0
ADAPT_S = 75.0
BLOCK = 64
"""Photos in one block of Ray Data."""


def split(decoders: int, inferring: int) -> Composition:
    groups = (Group(("decode",), Pattern.PAR, decoders), Group(("embed",), Pattern.PAR, inferring))
    return Composition(f"{decoders} and {inferring}", groups)


def rate_per_s(runner: Runner, seconds: float) -> float:
    before, began_s = delivered(runner), time.perf_counter()
    time.sleep(seconds)
    return (delivered(runner) - before) / (time.perf_counter() - began_s)


def by_hand(
    options: Mapping[str, Any], decoders: int, inferring: int, sizes: Sequence[int], seconds: float
) -> Iterator[dict[str, float]]:
    """Yield a row for each bundle size."""
    form = split(decoders, inferring)
    spec = RunSpec(
        app=Embed.name, options={**options, "share": 1 / inferring}, mode=Mode.PINNED, compositions=(form,),
        composition=form.name, batching=BatchingSpec(items=sizes[0]),
    )  # fmt: skip
    with delivering(spec) as runner:
        for size in sizes:
            runner.ask(SetBatching(BatchingSpec(items=size)))
            time.sleep(SETTLE_S)
            rate = rate_per_s(runner, seconds)
            progress(f"{form.name} workers, bundles of {size}: {rate:.0f} items/s")
            yield {"decode": decoders, "embed": inferring, "bundle": size, "items/s": rate}


def chosen(options: Mapping[str, Any], inferring: int, seconds: float) -> dict[str, Any]:
    """Return the throughput with the objective ``fastest`` and without a bundle size."""
    slo = Slo("throughput", FASTEST)
    with delivering(RunSpec(app=Embed.name, options={**options, "share": 1 / inferring}, slo=slo)) as runner:
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < ADAPT_S:
            time.sleep(5.0)
            status = runner.ask(ReadStatus())
            assert status.composition is not None, "the runner is up"
            told = f"bundles of {status.batching.size}: {status.batching.reason}"
            progress(f"{status.composition.notation}, {status.throughput_per_s or 0:.0f} items/s, {told}")
        rate = rate_per_s(runner, 3 * seconds)
        status = runner.ask(ReadStatus())
        return {"form": status.composition.notation, "bundle": status.batching.size, "items/s": rate}


class Pool:
    """Ray Data's actor: the same model on the same device."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._app = Embed(EmbedOptions(**options))
        self._app.setup(["decode", "embed"])

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"vector": np.stack(self._app.embed(list(batch["image"])))}


def decoded(row: dict[str, Any], app: Embed) -> dict[str, Any]:
    return {"image": app.decode(row["photo"])}


def by_ray_data(options: Mapping[str, Any], inferring: int, size: int, photos: int) -> float:
    """Return items/s after the first tenth of the results, because actors start in that time."""
    ray.init(log_to_driver=False, include_dashboard=False)
    app = Embed(EmbedOptions(**options))
    files = list(app.items(None))
    given = [{"photo": files[at % len(files)]} for at in range(photos)]
    data = ray.data.from_items(given, override_num_blocks=max(1, photos // BLOCK))
    gpus = {"num_gpus": 1 / inferring} if options["device"] == "cuda" else {}
    data = data.map(decoded, fn_args=(app,)).map_batches(
        Pool, fn_constructor_args=(options,), batch_size=size, concurrency=inferring, **gpus
    )
    done, start = 0, (0, 0.0)
    for batch in data.iter_batches(batch_size=None):
        done += len(batch["vector"])
        if not start[0] and done >= photos // 10:
            start = done, time.perf_counter()
    rate = (done - start[0]) / (time.perf_counter() - start[1])
    ray.shutdown()
    progress(f"Ray Data, {inferring} actors, batches of {size}: {rate:.0f} items/s")
    return rate


def measure(
    device: Literal["cpu", "cuda"] = "cpu",
    side: Annotated[int, "pixels of an image's side"] = 128,
    width: Annotated[int, "size of a token"] = 256,
    layers: Annotated[int, "layers of the model"] = 4,
    seconds: Annotated[float, "of each point"] = 3.0,
    photos: Annotated[int, "for Ray Data"] = 4000,
    most: Annotated[int, "the largest bundle by hand"] = 64,
) -> Iterator[Rows]:
    options = {"device": device, "side": side, "width": width, "layers": layers}
    decoders = max(1, cores() - 2)
    sizes = [2**power for power in range(0, most.bit_length(), 2)]
    with ray_if(True):
        hand = [row for inferring in (1, 2, 4) for row in by_hand(options, decoders, inferring, sizes, seconds)]
        yield Rows(f"by hand, on {device}", hand)
        best = max(hand, key=lambda row: row["items/s"])
        replicas, size = int(best["embed"]), int(best["bundle"])
        ours = chosen(options, 4, seconds)
        again = next(by_hand(options, decoders, replicas, [size], 3 * seconds))["items/s"]
    theirs = max(by_ray_data(options, replicas, each, photos) for each in (size, 2 * size))
    figures = {"chosen": ours["items/s"], "best by hand, again": again, "Ray Data, best of two sizes": theirs}
    checks = {
        "chosen ≥ 0.97 × the best by hand": ours["items/s"] >= 0.97 * again,
        "chosen ≥ 1.2 × Ray Data": ours["items/s"] >= 1.2 * theirs,
    }
    yield Rows(f"chosen: {ours['form']} in bundles of {ours['bundle']}", [figures], checks)


if __name__ == "__main__":
    main(measure)
