"""The queries of TPCx-BB: what they tell is what DuckDB's SQL finds in the same files, whatever the composition and
whatever travels together."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from apps.contract import App
from apps.keys import Partitions
from apps.registry import create
from apps.tpcxbb import tables
from apps.tpcxbb.__main__ import main as write_tables
from apps.tpcxbb.generate import DIMENSIONS, STREAMS, Plan
from compositions.errors import RecomposeError
from lab.benchmarks.plain import serial
from lab.benchmarks.tpcxbb import Q1_SQL, Q2_SQL, Q3_SQL, Q4_SQL, Q15_SQL, READERS, asked
from service.cli import main

DENSE = Plan(rows=9_000, hours=5, items=300, users=60)
VISITED = Plan(rows=12_000, hours=24 * 25, items=300, users=100)
LONG = Plan(rows=20_000, hours=24 * 366, items=300, users=60)
Q1 = {"least": 1, "most": 10, "stores": [*range(1, 41)]}
Q1_ASKED = Q1_SQL.format(stores=", ".join(map(str, Q1["stores"])), least=1, most=10)
FORMS = ["", "_arrow"]


@pytest.fixture(scope="module", params=["parquet", "csv"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of tables: ``dense`` for sales by the hour, ``long`` for those by the day, ``clicks``."""
    place: Path = tmp_path_factory.mktemp(request.param)
    for name, plan in {"dense": DENSE, "long": LONG, "clicks": VISITED}.items():
        tables.write(place / name, plan, request.param)
    return place


def answers(folder: Path, sql: str, query: str = "q1") -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        for path in sorted(folder.iterdir()):
            database.execute(f"create view {path.stem} as select * from '{path}'")
        return asked(database, query, sql)


def made(name: str, folder: Path, **options: Any) -> App:
    return create(name, {"tables": str(folder), **options})


def tops(app: App) -> list[tuple[Any, ...]]:
    return READERS["q1"](serial(app))


QUERIES: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "q1": ("dense", Q1_ASKED, 50, {**Q1, "partitions": 5}),
    "q2": ("clicks", Q2_SQL, 61, {"item": 101}),
    "q3": ("clicks", Q3_SQL, 30, {"item": 101}),
    "q4": ("clicks", Q4_SQL, 6, {}),
    "q15": ("long", Q15_SQL, 2, {"partitions": 3}),
}
"""Its folder, its SQL, the least number of its rows, and its options."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_tells_what_duckdb_finds(folder: Path, query: str, form: str) -> None:
    place, sql, least, options = QUERIES[query]
    rows = READERS[query](serial(made(f"tpcxbb_{query}{form}", folder / place, portion=700, **options)))
    assert len(rows) >= least
    assert rows == answers(folder / place, sql, query)
    if query in ("q2", "q3"):
        assert max(Counter(from_s for from_s, *_ in rows).values()) == 30, "the top 30"


def test_with_the_hundred_partitions_of_the_paper_each_key_has_one_of_its_own(folder: Path) -> None:
    app = made("tpcxbb_q2", folder / "clicks", item=101, partitions=100)
    assert tops(app) == answers(folder / "clicks", Q2_SQL)
    stage = next(stage for stage in app.stages if stage.name == "sessions")
    assert list(Partitions(stage.partitions, stage.bounds).of(list(range(100)))) == list(range(100))


@pytest.mark.parametrize("form", FORMS)
def test_from_the_command_line(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.logs.configure", lambda *_, **__: None)
    monkeypatch.setattr("sys.argv", ["tpcxbb", str(tmp_path / "sales"), "--rows", "2000", "--items", "20"])
    assert write_tables() == 0
    command = ["run", f"tpcxbb_q1{form}", "--pool", "local", "-o", f"tables={tmp_path}/sales", "-o", "least=0"]
    assert CliRunner().invoke(main, [*command, "--out", f"{tmp_path}/out"]).exit_code == 0
    lines = (tmp_path / "out").read_text().splitlines()
    assert [json.loads(line)["value"]["top"] != [] for line in lines] == [True] * 3


def test_what_cannot_be_a_sentence_each(tmp_path: Path) -> None:
    app = create("tpcxbb_q1", {})
    with pytest.raises(RecomposeError, match="give the folder as -o tables=/x"):
        app.items(Path("/x"))
    with pytest.raises(ValueError, match="must be an object with whole numbers time, ss_item_sk"):
        app.from_json({"time": 3})
    with pytest.raises(ValueError, match="must be a list of one row or more"):
        create("tpcxbb_q1_arrow", {}).from_json([])
    with pytest.raises(RecomposeError, match=r"has no store_sales\.parquet and no store_sales\.csv"):
        list(made("tpcxbb_q1", tmp_path).items(None))
    (tmp_path / "store_sales.csv").write_text("a,b\n1,2\n")
    with pytest.raises(RecomposeError, match="is no table store_sales with ss_sold_date_sk"):
        list(made("tpcxbb_q1", tmp_path).items(None))


@pytest.mark.parametrize("form", FORMS)
def test_nulls_and_huge_keys_are_what_they_are_to_duckdb(tmp_path: Path, form: str) -> None:
    """Goods without a category or a key, keys beyond what memory has places for, and sums that are no number."""
    far = 1 << 40
    for name, plan in {"sales": DENSE, "long": LONG, "clicks": VISITED}.items():
        tables.write(tmp_path / name, plan, "parquet")
        item = pq.read_table(tmp_path / name / "item.parquet").to_pydict()
        keys = [key + far if key % 3 == 0 else key for key in item["i_item_sk"]]
        item = {"i_item_sk": [None, *keys], "i_category_id": [2, *item["i_category_id"]]}
        item["i_category_id"][5::7] = [None] * len(item["i_category_id"][5::7])
        pq.write_table(pa.table(item, DIMENSIONS["item"]), tmp_path / name / "item.parquet")
        for file, column in (("store_sales", "ss_item_sk"), ("web_clickstreams", "wcs_item_sk")):
            path = tmp_path / name / f"{file}.parquet"
            rows = pq.read_table(path).to_pydict()
            rows[column] = [key + far if key and key % 3 == 0 else key for key in rows[column]]
            rows[column][3::50] = [None] * len(rows[column][3::50])
            pq.write_table(pa.table(rows, STREAMS[file].columns), path)
    q1 = made(f"tpcxbb_q1{form}", tmp_path / "sales", portion=700, partitions=3, **Q1)
    if form:
        with pytest.raises(RecomposeError, match=r"key 1099511\d+ is too large for this app; "):
            serial(q1)
    else:
        assert tops(q1) == answers(tmp_path / "sales", Q1_ASKED)
    found = [row for row in answers(tmp_path / "long", Q15_SQL) if row[1] is not None]
    rows = serial(made(f"tpcxbb_q15{form}", tmp_path / "long", portion=700, partitions=3))
    assert sorted((e["from_day"], e["category"], e["days"], e["cents"]) for e in rows) == [row[:4] for row in found]
    rows = tops(made(f"tpcxbb_q3{form}", tmp_path / "clicks", portion=700, item=101))
    assert rows == answers(tmp_path / "clicks", Q3_SQL)


@pytest.mark.parametrize(
    ("key", "category", "sentence"),
    [
        (0, 1, "item with key 0; keys must be 1 or more"),
        (1, -3, "item of category -3; categories must be from 1 to 2,147,483,647"),
        (1, 1 << 31, "item of category 2147483648; categories must be from 1 to 2,147,483,647"),
    ],
)
def test_keys_that_the_benchmark_has_not_are_a_sentence(tmp_path: Path, key: int, category: int, sentence: str) -> None:
    pq.write_table(pa.table([[key], [category]], DIMENSIONS["item"]), tmp_path / "item.parquet")
    with pytest.raises(RecomposeError, match=f"^table item has an {sentence}$"):
        made("tpcxbb_q15", tmp_path).setup()


def test_a_sum_that_is_no_number_counts_as_none() -> None:
    batch = pa.RecordBatch.from_pylist([{"ss_sold_date_sk": 1, "ss_sold_time_sk": 2, "ss_net_paid": float("nan")}])
    assert tables.columns_of(batch, STREAMS["store_sales"], ["ss_net_paid"])["ss_net_paid"].tolist() == [0]
