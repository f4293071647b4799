"""Opens Spark: finds Java, keeps the JVM's talk out of the terminal, and says in one sentence what is missing."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compositions.errors import RecomposeError

JAVA = (17, 21)
"""Versions that Spark 4 runs on."""
CONNECT_S = 5.0
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set for a program that spark-submit runs."""
CLASSES = Path(sys.prefix) / "spark-classes.jsa"
"""Spark's classes as ``datapipe.spark.class_archive`` stores them; a JVM without this file takes twice the CPU."""
JVM = "-XX:+UseParallelGC"  # throughput: nobody waits for a pause
if CLASSES.exists():  # a JVM that cannot use them would say so where scripts of Spark's read
    JVM += f' -XX:SharedArchiveFile="{CLASSES}" -Xlog:disable'
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",  # a laptop's cores, twice; a cluster sets its own
    "spark.driver.memory": "3g",
    "spark.driver.extraJavaOptions": JVM,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Groups with lists are hashed, not sorted, as long as there are fewer than this many at a time.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "200000",
}
FIRST_COMPILER = {"spark.driver.extraJavaOptions": f"{JVM} -XX:TieredStopAtLevel=1"}
"""For one question, and for jobs whose work is done in Python: the JVM's second compiler costs more CPU than it saves
them."""


class NoJava(RecomposeError):  # noqa: N818 - a sentence reads better with its name
    """Spark needs Java, and there is none that it runs on."""


class NoSpark(RecomposeError):  # noqa: N818
    """Spark did not start, or its master did not answer."""


def open_session(app_name: str, master: str | None = None, settings: Mapping[str, str] = SETTINGS) -> Any:
    """A SparkSession: of ``master``, of ``spark-submit``, of ``SPARK_REMOTE``, or of this machine's cores. Raises:
    NoJava without Java 17 or 21; NoSpark when PySpark is missing or the master does not answer."""
    try:
        from pyspark.sql import SparkSession  # imported here: it takes a second
    except ImportError as error:
        raise NoSpark("PySpark is not installed; install recompose with its extra 'spark'") from error
    builder: Any = SparkSession.builder.appName(app_name)
    if SUBMITTED in os.environ and master is None:  # spark-submit has chosen master and network, and started the JVM
        return _started(builder.config(map={**settings}), "spark-submit")
    remote = os.environ.get("SPARK_REMOTE")
    if remote and master is None:
        return _started(builder.remote(remote), remote)
    os.environ["JAVA_HOME"] = java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the first on the PATH may lack our modules
    address = master or "local[*]"
    _check_reachable(address)
    return _started(builder.master(address).config(map={**settings, **_network(address)}), address)


def java_home() -> str:
    """Home of the first Java that fits: ``JAVA_HOME``, then ``java`` on the PATH. Raises: NoJava."""
    found = []
    for java in _candidates():
        version = _version(java)
        if version in JAVA:
            return str(Path(java).resolve().parents[1])
        found.append(f"{java} is version {version}")
    seen = f" ({'; '.join(found)})" if found else ""
    raise NoJava(f"Spark needs Java 17 or 21 and found none in JAVA_HOME or on the PATH{seen}; run make setup-java")


def _candidates() -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        yield str(Path(home) / "bin" / "java")
    if java := shutil.which("java"):
        yield java


def _version(java: str) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)', answer)
    return int(match.group(1)) if match else None


def _network(master: str) -> dict[str, str]:
    """A session of this machine alone listens on loopback only."""
    alone = re.match(r"local|spark://(127\.0\.0\.1|localhost):", master)
    return {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"} if alone else {}


def _check_reachable(master: str) -> None:
    """Spark itself would try for a minute. Raises: NoSpark when nobody listens at ``spark://host:port,host:port``."""
    if not master.startswith("spark://"):
        return
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
        except (OSError, ValueError):
            continue
        return
    cure = "give one that runs, or leave --master out for this machine"
    raise NoSpark(f"Spark master {master!r} cannot be reached; {cure}")


def _started(builder: Any, address: str) -> Any:
    """Raises: NoSpark with the last thing that the JVM said about it."""
    with tempfile.TemporaryFile() as talk, _standard_error_into(talk.fileno()):
        try:
            return builder.getOrCreate()
        except Exception as error:
            talk.seek(0)
            raise NoSpark(f"Spark did not start on {address!r}: {_reason(error, talk.read().decode())}") from error


@contextmanager
def _standard_error_into(file: int) -> Iterator[None]:
    """Where the JVM inherits its standard error from: its log is no message to the user."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def interrupted(error: BaseException | None) -> bool:
    """Return whether an error came of Ctrl-C: Spark cancels the job, and tells of that instead."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def told_in_a_sentence(what: str) -> Iterator[None]:
    """Spark's errors while ``what`` is in the making. Raises: RecomposeError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except RecomposeError:
        raise
    except (PySparkException, Py4JError, OSError) as error:
        if interrupted(error):
            raise KeyboardInterrupt from None
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise RecomposeError(f"{what}: {lines[0][:300]}") from error


def _reason(error: Exception, talk: str) -> str:
    told = [line for line in talk.splitlines() if re.search(r"ERROR|Exception|refused|unresponsive", line)]
    text = (told[-1] if told else str(error).strip().splitlines()[0]).strip()
    return text[-300:]
