"""Military Server through a whole run: a broken tuple in a bundle fails alone; results are those of a plain loop."""

import json
from pathlib import Path

from apps.military_server import MilitaryOptions, MilitaryServer
from compositions.notation import parse
from control.decisions import Mode
from service.runner.rpc.requests import PushMany, ReadSummary, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import BatchingSpec, RunSpec, SourceSpec
from tests.unit.test_military_server import as_json, plain, received

OPTIONS = {"tuples": 40, "narrowest": 1, "widest": 4}


def test_a_broken_tuple_in_a_bundle_fails_alone(tmp_path: Path) -> None:
    records = list(MilitaryServer(MilitaryOptions(**OPTIONS)).items(None))
    off_the_map = records[17][:10] + bytes([255]) * 128 + records[17][138:]
    values = [*records[:17], off_the_map, *records[18:], as_json(received(records[17]))]
    spec = RunSpec(
        app="military_server", options=OPTIONS, mode=Mode.PINNED, batching=BatchingSpec(items=64), pool="local",
        compositions=(parse("Seq(f1,f2,f3,f4,f5)", MilitaryServer.stages, name="it"),), composition="it",
        source=SourceSpec(kind="push"), out_path=str(tmp_path / "out.jsonl"),
    )  # fmt: skip
    runner = Runner(spec)
    runner.ask(Start())
    taken = runner.ask(PushMany(tuple(values)))
    assert taken.refusal is None
    runner.ask(Stop(drain=True))
    items = runner.ask(ReadSummary()).items
    assert items is not None
    assert (items.delivered, items.failed) == (40, 1)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert "coordinates has 65535; must be from 32 to 479" in rows.pop(17)["error"]
    whole = [plain(received(record)) for record in records]
    assert [row["value"] for row in rows] == [*whole[:17], *whole[18:], whole[17]]
