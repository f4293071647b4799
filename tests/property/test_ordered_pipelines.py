"""Ordered processing: with any scheduler, worklist and number of workers, outputs are those of a serial run."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from compositions.batch_settings import SchedulerSettings
from compositions.dynamic import SCHEDULER_NAMES
from compositions.model import StageKind
from lab.papers.prasaad.operators import Operator, serial_run
from lab.papers.prasaad.plant import Plant, Setup, Trace
from lab.papers.prasaad.worklists import QUEUE_NAMES, Entry, make_worklist
from tests.support.examples import examples

OPERATORS = st.builds(
    Operator,
    name=st.sampled_from(["filter", "join", "count"]),
    kind=st.sampled_from(list(StageKind)),
    cost_s=st.sampled_from([1e-6, 1e-5, 3e-4]),
    selectivity=st.sampled_from([0.0, 0.1, 0.7, 1.0, 2.5]),
    partitions=st.integers(1, 8),
    cv=st.sampled_from([0.0, 0.5]),
)
SETUPS = st.builds(
    Setup,
    scheduler=st.sampled_from(SCHEDULER_NAMES),
    queue=st.sampled_from(QUEUE_NAMES),
    workers=st.integers(1, 16),
    settings=st.builds(
        SchedulerSettings,
        slice_s=st.sampled_from([1e-6, 1e-4, 1.0]),
        window_s=st.sampled_from([1e-4, 0.1]),
        capacity=st.sampled_from([1, 100]),
        least_waiting=st.sampled_from([1, 5]),
        selectivity=st.sampled_from(["corrected", "printed"]),
        ahead=st.sampled_from([0.01, 2.0]),
    ),
    sending=st.sampled_from(["non-blocking", "lock"]),
    ring_slots=st.sampled_from([1, 2, 7, 1024]),
    ask_s=st.sampled_from([0.0, 1e-6]),
    send_s=st.sampled_from([0.0, 1e-6, 1e-4]),
    crowding=st.sampled_from([0.0, 0.2]),
)


@examples(60)
@given(
    operators=st.lists(OPERATORS, min_size=1, max_size=4),
    setup=SETUPS,
    inputs=st.lists(st.integers(0, 50), max_size=60),
    rate_per_s=st.sampled_from([None, 1e3, 1e6]),
)
def test_outputs_are_those_of_a_serial_run(
    operators: list[Operator], setup: Setup, inputs: list[int], rate_per_s: float | None
) -> None:
    trace = Plant(operators, setup).run(inputs, rate_per_s)
    assert values(trace) == serial_run(operators, inputs)
    assert [at_s for at_s, _, _ in trace.outputs] == sorted(at_s for at_s, _, _ in trace.outputs)
    assert trace.busy_s[0] >= 0.999999 * sum(operators[0].time_s(value) for value in inputs)


def values(trace: Trace) -> list[int]:
    return [value for *_, value in trace.outputs]


@examples(100)
@given(
    queue=st.sampled_from(QUEUE_NAMES),
    partitions=st.lists(st.integers(0, 3), max_size=40),
    moves=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=120),
)
def test_a_partition_is_at_one_worker_at_a_time_and_its_tuples_in_order(
    queue: str, partitions: list[int], moves: list[tuple[int, bool]]
) -> None:
    """Workers take and end as they please; a worker that must go on goes on before it leaves (theorem 4.1)."""
    worklist = make_worklist(queue, 4, 4)
    for serial, partition in enumerate(partitions, 1):
        worklist.put(Entry(serial, partition, 0))
    at_work: dict[int, Entry] = {}
    last = Counter[int]()
    seen = 0
    for worker, leaves in moves:
        bound = False
        if worker in at_work:
            bound = worklist.done(worker, at_work.pop(worker).partition)
            if leaves and not bound:
                worklist.left(worker)
                continue
        taken = worklist.take(worker, 2**63)
        assert taken or not bound, "who must go on finds something"
        if taken is None:
            continue
        assert all(taken.partition != other.partition for other in at_work.values())
        assert taken.serial > last[taken.partition]
        last[taken.partition] = taken.serial
        at_work[worker] = taken
        seen += 1
        assert worklist.waiting == len(partitions) - seen
