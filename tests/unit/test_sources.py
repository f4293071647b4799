"""Sources and the thread that runs them. Races are staged with events; no test sleeps."""

import itertools
import os
import pickle
import threading
from typing import Any
from unittest.mock import Mock

import pytest

from apps.contract import App
from apps.rates import Fixed
from compositions.batching import BundleLimits
from compositions.errors import RecomposeError
from compositions.model import Stage
from datapipe.source_kinds import open_source
from datapipe.sources.fed import Fed, Message
from datapipe.sources.push import BufferFull, Push, SourceClosed
from datapipe.sources.source_thread import MOST_BYTES, PATIENT_ITEMS, Encoded, HandOver, SourceLimits, SourceThread
from datapipe.sources.sources import Arrival

WAIT_S = 20.0


class Numbers(App):
    name = "numbers"
    stages = (Stage("keep"),)
    data = (0, 1, 2)

    def keep(self, value):
        return value

    def items(self, path):
        return iter(self.data if path is None else path.read_text().split())


class Bare(Numbers):
    name = "bare"
    items = App.items


def ticking():
    return itertools.count(100.0).__next__


class Consumer:
    """Starts a source thread, and in the end sees to it that none is left."""

    def __init__(self):
        self.woken = threading.Semaphore(0)
        self.thread = None

    def run(self, source, pattern=None, *, clock, encode=lambda values: values, batching=None, **limits):
        wake, limits = self.woken.release, SourceLimits(**limits)
        self.thread = SourceThread(source, pattern, clock=clock, wake=wake, encode=encode, limits=limits)
        if batching is not None:
            self.thread.set_batching(batching)
        self.thread.start()
        return self.thread

    def awaited(self):
        assert self.woken.acquire(timeout=WAIT_S)

    def rest(self):
        taken = []
        while True:
            while got := self.thread.take():
                taken += got
            if self.thread.finished:
                return taken
            self.awaited()


@pytest.fixture
def consumer():
    made = Consumer()
    yield made
    made.thread.stop(drain=False)
    assert made.thread.join(WAIT_S), "the source thread still runs"


def values(arrivals):
    return [value for each in arrivals for value in (each.payload if isinstance(each, Encoded) else [each.value])]


# --- replay -----------------------------------------------------------------------------------------------------------


def test_replayed_item_arrives_when_its_read_begins():
    now_s = [0.0]

    class Slow(Numbers):
        def items(self, path):
            for value in self.data:
                now_s[0] += 1.0  # decoding takes a second
                yield value

    arrivals = list(open_source(Slow(), "replay", clock=lambda: now_s[0], loop=False))
    assert arrivals == [Arrival(1.0, 0), Arrival(1.0, 1), Arrival(2.0, 2)]  # the first was read when it was opened


def test_a_replay_goes_on_over_and_over_until_it_is_closed():
    source = open_source(Numbers(), "replay", clock=ticking())
    iterator = iter(source)
    assert values(itertools.islice(iterator, 7)) == [0, 1, 2, 0, 1, 2, 0]
    source.close()
    assert list(iterator) == []


@pytest.mark.parametrize(
    ("app", "kind", "path", "sentence"),
    [
        (Numbers, "replay", "/no/such", "source path '/no/such' does not exist; give a file or folder of app"),
        (Numbers, "replay", os.devnull, "source path '/dev/null' has no items"),
        (Bare, "replay", None, "app 'bare' has no data set of its own; start it with source push"),
        (Numbers, "push", "/tmp", "source push accepts no path"),
        (Numbers, "tape", None, "known kinds are replay, video, push, folder, redis, kafka, nats, mqtt and rabbitmq"),
    ],
)
def test_source_refused_with_a_sentence(app, kind, path, sentence):
    with pytest.raises(RecomposeError, match=sentence):
        open_source(app(), kind, path, clock=ticking())


# --- push -------------------------------------------------------------------------------------------------------------


def test_push_keeps_order_and_arrival_and_gives_serials_until_it_is_closed():
    source = Push(10, clock=ticking())
    assert [source.put(value) for value in "abc"] == [0, 1, 2]
    source.close()
    assert list(source) == [Arrival(100.0, "a", 100.0), Arrival(101.0, "b", 101.0), Arrival(102.0, "c", 102.0)]
    with pytest.raises(SourceClosed, match="accepts no more items"):
        source.put("d")


def test_push_says_when_it_is_full_and_counts_what_it_refused():
    now_s = [10.0]
    source = Push(2, clock=lambda: now_s[0])
    source.put("a")
    source.put("b")
    with pytest.raises(BufferFull, match="holds 2 items and is full"):
        source.put("c")
    now_s[0] = 12.5
    assert source.offer() == (3, 1, 2, 2.5)
    assert next(iter(source)).value == "a"
    assert source.put("c") == 2


# --- the thread -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"capacity": 1}, {"items": 5}], ids=["one at a time", "endless"])
def test_thread_hands_over_everything_encoded_and_in_order_up_to_a_limit(consumer, limits):
    source = open_source(Numbers(), "replay", clock=ticking(), loop="items" in limits)
    consumer.run(source, clock=ticking(), encode=lambda values: [value * 10 for value in values], **limits)
    assert values(consumer.rest()) == [0, 10, 20, 0, 10][: limits.get("items", 3)]
    assert consumer.thread.error is None


@pytest.mark.parametrize("error", [None, RecomposeError("it is gone")])
def test_a_feed_is_closed_at_the_limit_and_after_an_error(consumer, error):
    feed = Mock(ended=False)
    feed.poll.side_effect = error or (lambda *_: [Message("p", number, b"7") for number in range(9)])
    consumer.run(Fed(Numbers(), feed, ticking()), clock=ticking(), items=5)
    assert values(consumer.rest()) == ([] if error else [7] * 5)
    assert consumer.thread.join(WAIT_S)
    assert feed.close.call_count == 1


def test_full_hand_over_blocks_the_source(consumer):
    third_encoded = threading.Event()
    encoded = []

    def encode(values):
        encoded.extend(values)
        if len(encoded) == 3:
            third_encoded.set()
        return values

    source = open_source(Numbers(), "replay", clock=ticking())
    thread = consumer.run(source, clock=ticking(), encode=encode, capacity=2, items=6)
    assert third_encoded.wait(WAIT_S)  # two handed over, the third in hand
    assert len(encoded) == 3
    assert values(thread.take(1)) == [0]
    assert values(consumer.rest()) == [1, 2, 0, 1, 2]


@pytest.mark.parametrize(("drain", "blocked"), [(True, {"pattern": Fixed(1e-6)}), (False, {"capacity": 1})])
def test_stop_ends_a_long_wait_for_the_next_item_or_for_room(consumer, drain, blocked):
    source = open_source(Numbers(), "replay", clock=ticking())
    thread = consumer.run(source, clock=lambda: 0.0, **blocked)
    consumer.awaited()
    thread.stop(drain=drain)
    assert thread.join(WAIT_S)
    assert values(thread.take()) == [0]
    assert thread.finished


def test_pushed_items_are_refused_once_the_limit_is_reached(consumer):
    source = Push(10, clock=ticking())
    thread = consumer.run(source, clock=ticking(), items=1)
    source.put("a")
    assert thread.join(WAIT_S)
    with pytest.raises(SourceClosed):
        source.put("b")


def test_failing_data_set_is_reported_and_what_was_read_stays(consumer):
    class Broken(Numbers):
        def items(self, path):
            yield 1
            raise OSError("the disk is gone")

    thread = consumer.run(open_source(Broken(), "replay", clock=ticking()), clock=ticking())
    assert values(consumer.rest()) == [1]
    assert "OSError: the disk is gone" in thread.error
    assert "Traceback" in thread.error


@pytest.mark.parametrize("bundle", [1, 2, 3, 4])
def test_an_item_that_cannot_be_sent_is_refused_alone(consumer, bundle):
    class Odd(Numbers):
        data = (1, 2, lambda: 3, 4)

    source = open_source(Odd(), "replay", clock=ticking(), loop=False)
    thread = consumer.run(source, capacity=8, clock=ticking(), encode=pickle.dumps, batching=BundleLimits(items=bundle))
    came = consumer.rest()
    sent = [each._replace(payload=pickle.loads(each.payload)) for each in came if each.error is None]
    assert (values(sent), thread.error) == ([1, 2, 4], None)
    (why,) = [each.error for each in came if each.error is not None]
    assert why.startswith("an item of the source, a function, cannot be sent to a worker (")
    assert why.endswith("); it must be picklable")


# --- since when a user waits ------------------------------------------------------------------------------------------


def test_a_paced_item_is_due_by_its_place_in_the_schedule_however_late_it_is_read(consumer):
    """The source is held back for five seconds: what it reads then has been due all the time."""
    now_s = [0.0]
    source = open_source(Numbers(), "replay", clock=lambda: now_s[0])
    thread = consumer.run(source, Fixed(10.0), clock=lambda: now_s[0], capacity=1, items=4, catch_up_s=60.0)
    consumer.awaited()
    now_s[0] = 5.0
    assert [round(due_s, 6) for each in consumer.rest() for due_s in each.due_s] == [0.0, 0.1, 0.2, 0.3]
    assert thread.offer().missed == 0


def test_what_comes_by_itself_is_due_when_it_came(consumer):
    source = Push(10, clock=ticking())
    source.put("a")
    thread = consumer.run(source, Fixed(1000.0), clock=lambda: 7000.0)
    consumer.awaited()
    assert thread.take() == [Encoded(["a"], (100.0,), (100.0,))]
    thread.stop()


def test_of_a_source_that_has_ended_nothing_more_is_asked_for(consumer):
    now_s = [0.0]
    source = open_source(Numbers(), "replay", clock=lambda: now_s[0], loop=False)
    thread = consumer.run(source, Fixed(1e6), clock=lambda: now_s[0], catch_up_s=60.0)
    now_s[0] = 1.0
    read = len(consumer.rest())
    now_s[0] = 100.0
    assert thread.offer() == (read, 0, 0, 0.0)


def test_a_data_set_in_memory_is_read_once_and_before_the_first_item() -> None:
    passes = iter([[0, 1, 2]])

    class Once(Numbers):
        def items(self, path: Any) -> Any:
            yield from next(passes)

    source = open_source(Once(), "replay", clock=ticking(), options={"in_memory": True})
    assert list(passes) == []
    assert values(itertools.islice(source, 9)) == [0, 1, 2] * 3
    source.close()


@pytest.mark.parametrize("options", [{"in_memory": 1}, {"in_memory": True, "more": True}, {"memory": True}])
def test_a_replay_takes_no_other_option(options: dict[str, Any]) -> None:
    with pytest.raises(RecomposeError, match="only in_memory is accepted, true or false"):
        open_source(Numbers(), "replay", clock=ticking(), options=options)


class Bench:
    """A hand-over with a hand-moved clock, that counts how often it woke its consumer."""

    def __init__(self, capacity: int = 2) -> None:
        self.now_s, self.woken = 0.0, 0
        self.hand_over = HandOver(capacity, self._wake, lambda: self.now_s)

    def _wake(self) -> None:
        self.woken += 1

    def put(self, count: int = 1) -> None:
        for _ in range(count):
            self.hand_over.put(Encoded("item", (self.now_s,), (self.now_s,)))


def test_who_waits_for_something_is_woken_once_for_all_that_is_there() -> None:
    bench = Bench()
    bench.put(2)
    assert bench.woken == 1
    bench.hand_over.take(1)
    bench.put()
    assert bench.woken == 1, "there is something since it was told"
    assert len(bench.hand_over.take()) == 2
    bench.put()
    assert bench.woken == 2


def test_who_has_enough_is_woken_when_it_is_much_and_has_room_for_it() -> None:
    bench = Bench()
    bench.hand_over.set_patient(True)
    bench.put(PATIENT_ITEMS - 1)
    assert bench.woken == 0
    bench.put()
    assert bench.woken == 1
    assert len(bench.hand_over.take()) == PATIENT_ITEMS


@pytest.mark.parametrize("patient", [False, True])
def test_the_end_is_told_and_nothing_is_lost_by_it(patient: bool) -> None:
    bench = Bench()
    bench.hand_over.set_patient(patient)
    bench.put()
    bench.hand_over.end()
    assert bench.woken == 1 + (not patient)
    assert not bench.hand_over.finished
    assert len(bench.hand_over.take()) == 1
    assert bench.hand_over.finished


@pytest.mark.parametrize("patient", [False, True])
def test_no_more_than_so_many_bytes_wait(patient: bool) -> None:
    bench = Bench(capacity=60)
    bench.hand_over.set_patient(patient)
    for _ in range(4):
        bench.hand_over.put(Encoded("frame", (0.0,), (0.0,)), MOST_BYTES // 4)
    assert bench.woken == 1, "and the consumer knows, also where it has enough"
    waiting = threading.Thread(target=lambda: bench.hand_over.put(Encoded("late", (0.0,), (0.0,)), 1))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive(), "the fifth waits for room"
    assert len(bench.hand_over.take(1)) == 1
    waiting.join(60)
    assert [each.payload for each in bench.hand_over.take()] == ["frame"] * 3 + ["late"]
