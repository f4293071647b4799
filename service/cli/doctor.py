"""``recompose doctor``: check this machine, or the nodes of a cluster, and report what is wrong with advice."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import psutil
from rich.table import Table
from rich.text import Text

from compositions.errors import RecomposeError
from compositions.wording import figure
from runtime.housekeeping import available_cores
from runtime.placement.cluster import cores_of
from service.cli import render
from service.cli.backup import state_option
from service.daemon.store.database import default_directory

if TYPE_CHECKING:
    from runtime.pools.ray.checkup import Report

Grade = Literal["good", "note", "bad"]
CLOCK_S = 1.0
"""Maximum clock difference, in seconds: times in results and telemetry come from different machines."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding. ``note``: something will not work, or not well; ``bad``: nothing will work."""

    about: str
    grade: Grade
    found: str
    do: str | None = None


COLORS = {"good": "green", "note": "yellow", "bad": "red"}


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8080, help="Port on which the service is to listen.")
@state_option
@click.option("--ray", "address", metavar="ADDRESS", help="Also check the nodes of the Ray cluster at this address.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(port: int, state: Path | None, address: str | None, as_json: bool) -> None:
    """Check that this machine can run Recompose; exit code 1 if something necessary is missing."""
    found = findings(port, (state or default_directory()).resolve())
    if address is not None:
        found += findings_of(address)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        render.console().print(_table(found))
    if any(each.grade == "bad" for each in found):
        raise SystemExit(1)


def _table(found: list[Finding]) -> Table:
    rows = [(Text(each.grade, style=COLORS[each.grade]), each.about, each.found, each.do or "") for each in found]
    return render.table("", "", "found", "what to do", rows=rows)


GIB = 2**30


def findings(port: int, state: Path) -> list[Finding]:
    """Return the findings on this machine, for a service with this port and state directory."""
    python = Finding("Python", "good", ".".join(map(str, sys.version_info[:3])))
    looks = (_libraries, _ray, _java, _cores, _memory, _shared_memory, _files)
    return [python, *(look() for look in looks), _port(port), _disk(state), _sockets()]


def _libraries() -> Finding:
    faults = list(_unmet())
    if faults:
        return Finding("libraries", "bad", "; ".join(faults), "install Recompose again into an environment of its own")
    return Finding("libraries", "good", f"Recompose {version('recompose')} and all packages that it needs")


def _unmet() -> Iterator[str]:
    """Yield required packages that are missing or have another version than the pinned one; pip checks ranges."""
    for requirement in requires("recompose") or ():
        if "extra ==" in requirement:
            continue
        match = re.match(r"([\w.-]+)(?:==([\w.]+))?", requirement)
        assert match is not None, "metadata begins with a name"
        name, pinned = match.groups()
        try:
            found = version(name)
        except PackageNotFoundError:
            yield f"{name} is missing"
            continue
        if pinned and found != pinned:
            yield f"{name} is {found}, not {pinned}"


def _ray() -> Finding:
    spec = find_spec("ray")
    if spec is None or spec.origin is None:
        return Finding("Ray", "bad", "cannot be found", "install Recompose again into an environment of its own")
    daemon = Path(spec.origin).parent / "core" / "src" / "ray" / "raylet" / "raylet"
    if not os.access(daemon, os.X_OK):
        return Finding("Ray", "bad", f"{daemon} cannot be run", "install ray again; is its file system mounted noexec?")
    return Finding("Ray", "good", version("ray"))


def _java() -> Finding:
    cure = "install Java 17 or 21 and recompose[spark], if data sets or streams are to run on Spark"
    if find_spec("pyspark") is None:
        return Finding("Spark", "note", "PySpark is not installed; everything else works", cure)
    java = os.environ.get("JAVA_HOME", "") and str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    try:
        told = subprocess.run([java or "java", "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return Finding("Spark", "note", "there is no Java; everything else works", cure)
    match = re.search(r'version "(\d+)', told.stderr)
    if match is None or match[1] not in ("17", "21"):
        return Finding("Spark", "note", f"Java is {match[1] if match else 'not understood'}, not 17 or 21", cure)
    return Finding("Spark", "good", f"PySpark {version('pyspark')}, Java {match[1]}")


def _cores() -> Finding:
    cores, load = available_cores(), os.getloadavg()[0]
    if cores < 2:
        return Finding("cores", "note", "one core", "replicas help only stages that wait; use two cores or more")
    if load > cores:
        busy = f"{cores}, with a load of {load:.1f}"
        return Finding("cores", "note", busy, "other programs use the cores too: measurements will scatter")
    return Finding("cores", "good", str(cores))


def _memory() -> Finding:
    free = psutil.virtual_memory().available
    if free < 2 * GIB:
        return Finding("memory", "note", f"{free / GIB:.1f} GiB free", "Ray and a few workers take 2 GiB; free some")
    return Finding("memory", "good", f"{free / GIB:.1f} GiB free")


def _shared_memory() -> Finding:
    shm = Path("/dev/shm")
    if not shm.is_dir():
        return Finding("shared memory", "note", "there is no /dev/shm", "Ray uses files instead, and is slower")
    free = shutil.disk_usage(shm).free
    if free < 256 * 2**20:
        cure = "enlarge /dev/shm; in a container: --shm-size 512m"
        return Finding("shared memory", "note", f"{free / 2**20:.0f} MiB free in /dev/shm", cure)
    return Finding("shared memory", "good", f"{free / GIB:.1f} GiB free in /dev/shm")


def _files() -> Finding:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < 1024:
        return Finding("open files", "note", f"{limit} at most", f"raise it, up to {most}: ulimit -n 4096")
    return Finding("open files", "good", f"{limit} at most")


def _port(port: int) -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            cure = "is Recompose running already? If not, give recompose serve another --port"
            return Finding("port", "note", f"{port} cannot be used: {error.strerror}", cure)
    return Finding("port", "good", f"{port} is free")


def _disk(state: Path) -> Finding:
    """Check the disk of the state, which also holds telemetry."""
    folder = next(each for each in (state, *state.parents) if each.exists())
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return Finding("disk", "bad", f"{str(folder)!r} cannot be written", "give recompose serve another --state")
    if free < GIB:
        return Finding("disk", "note", f"{free / GIB:.1f} GiB free at {folder}", "free some, or give another --state")
    return Finding("disk", "good", f"{free / GIB:.1f} GiB free at {folder}")


def _sockets() -> Finding:
    """Check the folder of the sockets between workers and runner; a socket's path may have 107 bytes."""
    folder = os.environ.get("RAY_TMPDIR") or "/tmp"
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("sockets", "bad", f"{folder!r} cannot be written", "set RAY_TMPDIR to a writable folder")
    if len(folder) > 40:
        return Finding("sockets", "bad", f"{folder!r} is too long for a socket", "set RAY_TMPDIR to a shorter path")
    return Finding("sockets", "good", f"in {folder}")


def findings_of(address: str) -> list[Finding]:
    """Connect to the Ray cluster at ``address`` and report what is wrong with its nodes, one sentence each."""
    from runtime.pools.ray import checkup  # imported here: Ray takes a second to load

    try:
        reports = checkup.examine(address)
    except RecomposeError as error:
        return [Finding("cluster", "bad", str(error), _cure(str(error)))]
    seen = [each for each in reports if each.seen]
    named = ", ".join(each.address for each in reports)
    return [Finding("cluster", "good", f"{len(reports)} nodes: {named}"), *_judged(reports, seen, checkup.look())]


def _cure(error: str) -> str:
    if "ersion mismatch" in error:
        return "install the same versions of Ray and Python here and on the nodes"
    if "uthenticat" in error or "oken" in error:
        return "give this user the token of the cluster: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    return "is Ray started there, and does a firewall let its ports through?"


def _judged(reports: Sequence[Report], seen: Sequence[Report], here: dict[str, Any]) -> Iterator[Finding]:
    wrong = [f"{each.address} starts no process" for each in reports if not each.seen]
    wrong += _without(seen, "reached", "cannot connect to this machine")
    cure = "let the nodes open TCP connections to each other: Ray's ports, and any port to a runner's node"
    yield _finding("cluster network", wrong, "bad", "each node starts processes and can connect to this machine", cure)
    wrong = [
        f"{each.address} has {name} {each.seen.get(name) or 'missing'}, here it is {here.get(name)}"
        for each, name in product(seen, ("ray", "python", "recompose"))
        if each.seen.get(name) != here.get(name)
    ]
    cure = "install the same versions on all nodes, into the Python that Ray runs there"
    yield _finding("cluster versions", wrong, "bad", "the same Ray, Python and Recompose on each node", cure)
    late = [each for each in seen if abs(each.clock_off_s) > CLOCK_S]
    wrong = [f"{each.address} is off by {figure(each.clock_off_s)} s" for each in late]
    cure = "run NTP or chrony on each node; times of day are affected, durations are not"
    yield _finding("cluster clocks", wrong, "note", f"within {CLOCK_S:g} s of this machine", cure)
    cure = "start Ray there with --num-cpus; Recompose keeps to the quota, other programs in the same Ray do not"
    pairs = [(each, cores_of(each.cpus, each.seen.get("cpus"))) for each in seen]
    told = "{} may use {} CPUs, and Ray counts {}"
    wrong = [told.format(each.address, figure(most), figure(each.cpus)) for each, most in pairs if most < each.cpus]
    yield _finding("cluster CPUs", wrong, "note", "Ray counts no more than each node may use", cure)
    cure = "set RAY_AUTH_MODE=token for each node and each client"
    wrong = _without(seen, "token", "accepts calls from anybody who reaches its Ray")
    yield _finding("cluster token", wrong, "note", "Ray asks for a token", cure)
    if len(seen) > 1:
        cure = "keep Ray in a private network, or set RAY_USE_TLS=1 on each node"
        wrong = _without(seen, "TLS", "sends code, arguments and status in clear")
        yield _finding("cluster TLS", wrong, "note", "Ray encrypts its calls", cure)


def _without(seen: Sequence[Report], key: str, what: str) -> list[str]:
    return [f"{each.address} {what}" for each in seen if not each.seen[key]]


def _finding(about: str, wrong: Sequence[str], grade: Grade, good: str, cure: str) -> Finding:
    return Finding(about, grade, "; ".join(wrong), cure) if wrong else Finding(about, "good", good)
