"""The runner's book of a micro-batch: under crashes of either side, every result becomes durable once, in order."""

from hypothesis import given
from hypothesis import strategies as st

from datapipe.spark.ledger import Ledger
from datapipe.spark.messages import Fetch, Key, Ready
from datapipe.spark.query import covered, part_name

FIRST = Key("q", 0)


def test_rows_are_taken_once_in_order() -> None:
    ledger = Ledger()
    assert ledger.begin(FIRST, 0) == 0
    assert ledger.take(FIRST, 0)
    assert not ledger.take(FIRST, 0)
    assert not ledger.take(FIRST, 2)
    assert not ledger.take(Key("q", 1), 1)
    assert ledger.take(FIRST, 1)


def test_a_driver_that_comes_back_gets_again_what_was_not_durable() -> None:
    ledger = Ledger()
    ledger.begin(FIRST, 0)
    for row in range(4):
        ledger.take(FIRST, row)
    for row in range(3):
        ledger.result(f"r{row}")
    assert ledger.offer() == Ready(FIRST, 3)
    assert ledger.offer() is None
    assert ledger.results(Fetch(ledger.number, 0, 2)) == ["r0", "r1"]
    ledger.durable(FIRST, 1)
    former = ledger.number
    assert ledger.begin(FIRST, 1) == 4, "no row is asked for twice"
    assert ledger.results(Fetch(former, 1, 1)) is None
    assert ledger.offer() == Ready(FIRST, 3)
    ledger.result("r3")
    assert ledger.offer() == Ready(FIRST, 4)
    assert ledger.results(Fetch(ledger.number, 1, 3)) == ["r1", "r2", "r3"]


def test_a_partition_has_its_turn_when_those_before_are_there() -> None:
    ledger = Ledger()
    ledger.begin(FIRST, 0)
    assert (ledger.first_of(0), ledger.first_of(1)) == (0, None)
    ledger.delivered(0, 7)
    ledger.delivered(0, 7)
    ledger.delivered(2, 9)
    assert [ledger.first_of(partition) for partition in range(3)] == [0, 7, None]
    ledger.begin(FIRST, 0)
    assert ledger.first_of(1) is None, "another driver delivers all partitions again"


def test_a_refused_row_has_its_result_in_its_place() -> None:
    ledger = Ledger()
    ledger.begin(FIRST, 0)
    ledger.take(FIRST, 0)
    ledger.refuse(FIRST, 1, "refused")
    assert ledger.offer() is None
    ledger.result("r0")
    assert ledger.offer() == Ready(FIRST, 2)
    assert ledger.results(Fetch(ledger.number, 0, 2)) == ["r0", "refused"]


def test_results_of_a_batch_that_was_given_up_are_nobodys() -> None:
    ledger = Ledger()
    ledger.begin(FIRST, 0)
    ledger.take(FIRST, 0)
    ledger.begin(Key("q", 1), 0)
    ledger.take(Key("q", 1), 0)
    ledger.result("old")
    assert ledger.offer() is None
    ledger.result("new")
    assert ledger.offer() == Ready(Key("q", 1), 1)
    assert ledger.results(Fetch(ledger.number, 0, 1)) == ["new"]


@given(st.lists(st.sampled_from(["take", "result", "offer", "write", "driver dies", "runner dies"]), max_size=80))
def test_whoever_dies_the_table_gets_every_result_once_and_in_order(steps: list[str]) -> None:
    """``offered`` is what can be written; ``table`` what is durable; a result is the number of its row."""
    ledger, offered, table, on_the_way = Ledger(), 0, list[int](), list[int]()
    wanted = ledger.begin(FIRST, 0)

    def do(step: str) -> None:
        nonlocal ledger, wanted, offered
        if step == "take" and ledger.take(FIRST, wanted):
            on_the_way.append(wanted)
            wanted += 1
        elif step == "result" and on_the_way:
            ledger.result(str(on_the_way.pop(0)))
        elif step == "offer" and (ready := ledger.offer()) is not None:
            offered = ready.until
        elif step == "write" and offered > len(table):
            (text,) = ledger.results(Fetch(ledger.number, len(table), 1)) or ()
            table.append(int(text))
            ledger.durable(FIRST, len(table))
        elif "dies" in step:
            offered = 0
            if step == "runner dies":
                ledger = Ledger()
                on_the_way.clear()
            wanted = ledger.begin(FIRST, len(table))

    for step in steps:
        do(step)
    while len(table) < 20:
        for step in ("take", "result", "offer", "write"):
            do(step)
    assert table == list(range(len(table)))


def test_parts_tell_by_their_names_how_far_a_batch_is() -> None:
    assert covered([]) == 0
    names = [part_name(0, 10) + ".zstd.parquet", part_name(10, 5) + ".snappy.parquet", "_SUCCESS", ".part-0.crc"]
    assert covered(names) == 15
    assert covered([*names, part_name(20, 5) + ".parquet"]) == 15, "there is a gap"
