"""Military Server through whole runs: whatever the workers, bundles and groups, results are those of a plain loop."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest

from apps.military_server import MilitaryOptions, MilitaryServer
from compositions.notation import parse
from control.decisions import Mode
from runtime.pools.ray import cluster
from service.runner.rpc.requests import PushMany, ReadSummary, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import BatchingSpec, RunSpec, SourceSpec
from tests.unit.test_military_server import as_json, plain, received

TUPLES = 300
OPTIONS = {"tuples": TUPLES, "narrowest": 1, "widest": 4}
PATIENCE_S = 120.0


def expected() -> list[dict[str, Any]]:
    return [plain(received(record)) for record in MilitaryServer(MilitaryOptions(**OPTIONS)).items(None)]


def written(path: Path) -> list[Any]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line.get("value") or line["error"] for line in sorted(lines, key=lambda line: line["serial"])]


def spec(notation: str, bundle: int, pool: Literal["local", "ray"], **more: Any) -> RunSpec:
    composition = parse(notation, MilitaryServer.stages, name="it")
    return RunSpec(
        app="military_server", options=OPTIONS, mode=Mode.PINNED, compositions=(composition,), composition="it",
        batching=BatchingSpec(items=bundle), pool=pool, **more,
    )  # fmt: skip


NOTATIONS = "Seq-Seq-Seq-Seq-Seq", "Par*2(f1,f2,f3,f4,f5)", "Par*2(f1,f2)-Seq(f3,f4,f5)"


def ways() -> Iterator[Any]:
    """The last one of each pool for every change."""
    for pool, notation, bundle in product(("local", "ray"), NOTATIONS, (1, 64)):
        last = (notation, bundle) == (NOTATIONS[-1], 64)
        yield pytest.param(pool, notation, bundle, marks=[] if last else pytest.mark.long)


@pytest.mark.parametrize(("pool", "notation", "bundle"), [*ways()])
def test_every_way_to_run_it_gives_what_a_plain_loop_gives(
    pool: Literal["local", "ray"], notation: str, bundle: int, tmp_path: Path
) -> None:
    if pool == "ray":
        cluster.connect()
    out = tmp_path / "out.jsonl"
    runner = Runner(spec(notation, bundle, pool, items=TUPLES, out_path=str(out)))
    try:
        runner.ask(Start())
        runner.wait(PATIENCE_S)
    finally:
        runner.ask(Stop(drain=False))
    assert written(out) == expected()


def test_a_broken_tuple_in_a_bundle_fails_alone(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    records = list(MilitaryServer(MilitaryOptions(**OPTIONS)).items(None))[:40]
    off_the_map = records[17][:10] + bytes([255]) * 128 + records[17][138:]
    values = [*records[:17], off_the_map, *records[18:], as_json(received(records[17]))]
    runner = Runner(spec("Seq(f1,f2,f3,f4,f5)", 64, "local", source=SourceSpec(kind="push"), out_path=str(out)))
    runner.ask(Start())
    taken = runner.ask(PushMany(tuple(values)))
    assert taken.refusal is None
    runner.ask(Stop(drain=True))
    items = runner.ask(ReadSummary()).items
    assert items is not None
    assert (items.delivered, items.failed) == (40, 1)
    results = written(out)
    assert "coordinates has 65535; must be from 32 to 479" in results.pop(17)
    whole = expected()[:40]
    assert results == [*whole[:17], *whole[18:], whole[17]]
