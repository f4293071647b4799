"""A Kafka topic, over ``confluent-kafka``: ``kafka://HOST:9092/TOPIC``. Each result is a message: its value is JSON,
its key the run, so that all of a run is in one partition and in order; headers are ``run``, ``serial``, ``part`` and
``error``.

The progress of the run goes into the same transaction, as the offset of a consumer group of its own, with the epoch
beside it. The transactional id is the run's: a writer that initialises it fences off earlier ones (KIP-98), and checks
afterwards that no later epoch was there first.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from compositions.errors import RecomposeError
from datapipe.brokers.opening import library, parts_of
from datapipe.sinks.port import AT_ONCE, Row, followed

WHO = "sink kafka"
ANSWER_S = 10.0
DEFAULTS = {"enable.metrics.push": False, "socket.timeout.ms": int(ANSWER_S * 1e3), "reconnect.backoff.ms": 500}
"""The second also limits the sending of offsets, whatever a call asks for; the third keeps librdkafka's log short."""
OURS = ("transactional.id", "group.id", "enable.idempotence")
MARK = 0
"""The partition whose offset stores the run's progress; every topic has this partition."""
REFUSED = tuple(f"{what}_AUTHORIZATION_FAILED" for what in ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"))
NEVER = (*REFUSED, "MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "_AUTHENTICATION", "_INVALID_ARG")
"""Errors that a retry would get again."""


class KafkaSink:
    """``settings``: of librdkafka. Raises: RecomposeError for a URL without a topic, settings that it refuses or that
    are the sink's own, or where the library is missing."""

    gather = AT_ONCE

    def __init__(self, url: str, run: str, epoch: int, settings: Mapping[str, Any]) -> None:
        self._host, self._topic = _place(url)
        self._run, self._epoch, self._until = run, epoch, 0
        self._of_run = ("run", run)
        if own := [name for name in OURS if name in settings]:
            raise RecomposeError(f"option {own[0]!r} is set by sink kafka itself, from the run; leave it out")
        self._kafka = library("confluent_kafka", WHO, "confluent-kafka", "kafka")
        name = f"recompose-{run}"
        common = {**DEFAULTS, **settings, "bootstrap.servers": self._host}
        self._producing = {**common, "queue.buffering.max.messages": 0, "transactional.id": name}
        consuming = {**common, "group.id": name, "isolation.level": "read_committed", "enable.auto.commit": False}
        try:
            self._marks: Any = self._kafka.Consumer(consuming)
        except self._kafka.KafkaException as error:
            raise RecomposeError(f"sink kafka refuses its options: {error.args[0].str()}") from error
        self._producer: Any = None
        """None: not started, or an error occurred, so that the run's progress must be read again."""

    def begin(self, next_serial: int, known: int) -> int:
        """Take over the run. A topic cannot delete messages, so results that come again are duplicated."""
        self._until = known
        with self._told():
            self._take_up()
            until = min(self._until, next_serial)
            self._commit(until, ())
        return until

    def write(self, until: int, rows: Sequence[Row]) -> None:
        with self._told():
            if self._producer is None:
                self._take_up()
            if until > self._until:
                self._commit(until, [row for row in rows if row.serial >= self._until])

    def close(self) -> None:
        self._drop()
        self._marks.close()

    def _take_up(self) -> None:
        """Fence off earlier epochs. Check for a later epoch before, so as not to fence it off, and again after."""
        producer = self._kafka.Producer(self._producing)
        error = producer.list_topics(self._topic, ANSWER_S).topics[self._topic].error
        if error is not None:
            raise self._kafka.KafkaException(error)
        self._look()
        producer.init_transactions(ANSWER_S)
        self._until = self._look()
        self._producer = producer

    def _look(self) -> int:
        """Return the run's progress in the topic."""
        try:
            (mark,) = self._marks.committed([self._mark()], ANSWER_S)
        except self._kafka.KafkaException as error:
            if error.args[0].code() == self._kafka.KafkaError.GROUP_ID_NOT_FOUND:
                return self._until
            raise
        if mark.error is not None:
            raise self._kafka.KafkaException(mark.error)
        if mark.offset < 0:  # no offset yet, or older than the broker's retention
            return self._until
        if int(mark.metadata) > self._epoch:
            raise followed(self._run)
        return int(mark.offset)

    def _commit(self, until: int, rows: Sequence[Row]) -> None:
        producer = self._producer
        producer.begin_transaction()
        produce, topic, run = producer.produce, self._topic, self._run
        for row in rows:
            headers = self._headers(row)
            try:
                produce(topic, row.value, run, headers=headers)
            except BufferError:  # librdkafka's queue is full of what goes before it
                producer.flush(ANSWER_S)
                produce(topic, row.value, run, headers=headers)
        mark = self._mark(until, str(self._epoch))
        producer.send_offsets_to_transaction([mark], self._marks.consumer_group_metadata(), ANSWER_S)
        producer.commit_transaction(ANSWER_S)
        self._until = until

    def _mark(self, *how_far: Any) -> Any:
        return self._kafka.TopicPartition(self._topic, MARK, *how_far)

    def _headers(self, row: Row) -> list[tuple[str, str]]:
        headers = [self._of_run, ("serial", str(row.serial))]
        if row.part is not None:
            headers.append(("part", str(row.part)))
        if row.error is not None:
            headers.append(("error", row.error))
        return headers

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Translate errors, and drop a failed transaction. A writer that took too long is fenced off, too."""
        try:
            yield
        except self._kafka.KafkaException as error:
            self._drop()
            what = error.args[0]
            if what.code() in self._codes("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
                with suppress(self._kafka.KafkaException):
                    self._look()
            kind = RecomposeError if what.code() in self._codes(*NEVER) else OSError
            raise kind(f"sink kafka cannot be written: {what.str()}") from error
        except BufferError as error:
            self._drop()
            raise OSError("sink kafka cannot be written: librdkafka's send queue stays full") from error

    def _drop(self) -> None:
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(0)
        self._producer = None

    def _codes(self, *names: str) -> list[int]:
        return [getattr(self._kafka.KafkaError, name) for name in names]


def _place(url: str) -> tuple[str, str]:
    """Return the host and the topic of a URL. Raises: RecomposeError."""
    parts = parts_of(url, WHO, "kafka://HOST:9092/TOPIC", one_port=False)
    topic = parts.path.strip("/")
    if parts.scheme != "kafka" or not parts.netloc or not topic or "@" in parts.netloc or parts.query:
        raise RecomposeError("the path of sink kafka names no broker and topic; give kafka://HOST:9092/TOPIC")
    return parts.netloc, topic
