"""A private Ray for this machine only, on loopback, with its own token and folder; and the output of its workers.

Ray's defaults are made for a cluster: everything listens on all addresses, anyone who reaches the machine may read
``/metrics``, and each start leaves a folder with sockets and logs behind.
"""

import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ray._raylet
from ray._private import ray_constants, services, worker
from ray._private.node import Node
from ray._private.ray_logging import global_worker_stdstream_dispatcher as _dispatcher

from runtime import housekeeping

# Pass the output of processes that Ray starts, on all machines, to a listener.
#
# By default Ray would print the output to our stdout, where results go, and without limit.

Hear = Callable[[str, str], None]
"""Called with the name of the printing process and the line, in a thread of Ray's."""

log = logging.getLogger(__name__)
_ray: Any = worker
_print_message = _ray.print_to_stdstream
_RAYS_OWN, _OURS = "ray_print_logs", "recompose"
_ON_ITS_WAY_S = 1.0
"""Maximum delay of a line: Ray looks for files twice a second, for lines ten times."""


def listen(hear: Hear) -> None:
    """Pass output to ``hear`` from now on; Ray must have been started with ``log_to_driver``.

    Ray's own messages, such as the death of a worker, would be printed in colour between the lines of the log. The
    runner reports such events in a line of its own, so they are logged at debug.
    """
    _ray.print_to_stdstream = _log_message
    _dispatcher.remove_handler(_RAYS_OWN)
    _dispatcher.add_handler(_OURS, lambda batch: _pass_on(hear, batch))


def hear_out() -> None:
    """Wait until the listener, if any, has got the output printed so far."""
    if any(name == _OURS for name, _ in _dispatcher.handlers):
        time.sleep(_ON_ITS_WAY_S)  # Ray does not report its progress


def forget() -> None:
    _ray.print_to_stdstream = _print_message
    _dispatcher.remove_handler(_OURS)


def _log_message(message: Mapping[str, Any], ignore_prefix: bool) -> None:
    for line in message["lines"]:
        log.debug("%s: %s", message["pid"], line)


def _pass_on(hear: Hear, batch: dict[str, Any]) -> None:
    """Pass the lines of a named actor to ``hear``; output without a name is Ray's own."""
    if not batch.get("actor_name"):
        return
    where = "" if batch["ip"] == batch["localhost"] else f" on {batch['ip']}"
    for line in batch["lines"]:
        hear(f"{batch['actor_name']} pid={batch['pid']}{where}", line)


_raylet: Any = ray._raylet
NOT_FOR_WORKERS = ("RECOMPOSE_TOKEN",)
"""Environment variables that Ray's processes and apps must not inherit: the token gives control of the service."""
NOT_NEEDED = ("start_monitor", "start_api_server")
"""Functions that start unneeded Ray processes: the autoscaler, which requests machines from a cloud, and the
dashboard's server, which Ray starts and waits for even without the dashboard."""
LOG_MONITOR = "start_log_monitor"
"""The function that starts the process that passes on output; not needed without a listener."""
AGENTS = ("--dashboard_agent_command=", "--runtime_env_agent_command=")
"""Options of a raylet with the commands of its agents, for machine metrics and for environments of tasks. Neither is
needed here, and each takes as much CPU as a worker to start."""
PLACEHOLDER = "cat"
"""The command that replaces an agent. A raylet needs a running process for each, and ends when one ends. This one
reads a pipe of the raylet's, takes no CPU, and ends with it."""
AGENTS_PORTS = ("METRICS_AGENT", "METRICS_EXPORT", "DASHBOARD_AGENT_LISTEN", "RUNTIME_ENV_AGENT")
"""Names of the ports that a raylet waits for its agents to publish."""
REGISTER_S = "600"
"""Time limit for a new Ray process to load Python, in seconds (Ray's default is a minute). On a machine that is too
busy a process would otherwise be killed and restarted forever."""
NO_PORT = -1
"""The value that Ray's agents publish for a missing service."""
TOKEN_FROM = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""Environment variables in which Ray looks for a token before its own file."""


@contextmanager
def environment(*, heard: bool) -> Iterator[None]:
    """Prepare the environment in which a Ray is started. ``heard``: True if its output has a listener. Ray reads its
    authentication mode at each start, with the token as default. Clusters are disabled, so that Ray uses loopback
    addresses."""
    taken = {name: os.environ.pop(name, None) for name in (*NOT_FOR_WORKERS, ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR)}
    os.environ.pop("RAY_AUTH_MODE", None)
    os.environ.setdefault("RAY_worker_register_timeout_seconds", REGISTER_S)
    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
    clusters, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False  # it was read at the import
    try:
        with _fewer_processes(NOT_NEEDED if heard else (*NOT_NEEDED, LOG_MONITOR)):
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        os.environ.pop(ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR)
        os.environ.update({name: value for name, value in taken.items() if value is not None})


@contextmanager
def _fewer_processes(not_needed: Sequence[str]) -> Iterator[None]:
    starts, start_process = {name: getattr(Node, name) for name in not_needed}, services.start_ray_process
    try:
        for name in starts:
            setattr(Node, name, lambda *_, **__: None)
        services.start_ray_process = partial(_start_without_agents, start_process)
        yield
    finally:
        services.start_ray_process = start_process
        for name, start in starts.items():
            setattr(Node, name, start)


def _start_without_agents(start: Callable[..., Any], command: Sequence[str], kind: str, *args: Any, **more: Any) -> Any:
    if kind == ray_constants.PROCESS_TYPE_RAYLET:
        options = dict(each.removeprefix("--").split("=", 1) for each in command if "=" in each)
        for name in AGENTS_PORTS:
            port_name = getattr(_raylet, f"{name}_PORT_NAME")
            _raylet.persist_port(options["session_dir"], options["node_id"], port_name, NO_PORT)
        command = [_with_placeholder(each) for each in command]
    return start(command, kind, *args, **more)


def _with_placeholder(option: str) -> str:
    agent = next((name for name in AGENTS if option.startswith(name)), None)
    return option if agent is None else f"{agent}{PLACEHOLDER}"


def guard_token(home: Path | None = None, given: Mapping[str, str] = os.environ) -> None:
    """Create Ray's token file, readable by this user only; Ray itself would make it readable for everybody."""
    if any(name in given for name in TOKEN_FROM):
        return
    file = (home or Path.home()) / ".ray" / "auth_token"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent) as made:
        made.write(secrets.token_hex(32))
        made.flush()
        try:
            os.link(made.name, file)  # atomic: another process may be about to read the file
        except FileExistsError:
            file.chmod(0o600)


def make_folder() -> Path:
    """Return a new private folder for Ray's sockets and logs, and remove the folders of ended processes."""
    base = Path(os.environ.get("RAY_TMPDIR") or "/tmp")  # not TMPDIR: a socket's path has 107 bytes at most
    return Path(housekeeping.make_folder(base)) / "ray"


def remove_folder(folder: Path) -> None:
    """Remove a folder of ``make_folder``; Ray must have ended."""
    shutil.rmtree(folder.parent, ignore_errors=True)
