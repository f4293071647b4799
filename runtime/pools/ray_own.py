"""A Ray of our own, for this machine only: it listens on loopback, asks for a token, and its folder goes with it.

Ray's defaults are made for a cluster: everything listens on all addresses, whoever has the machine's address may ask
``/metrics``, and each start leaves a folder with sockets and logs behind.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from ray._private import ray_constants
from ray._private.node import Node

PREFIX = "recompose-"
"""Of the folder's name; the id of the process that it belongs to follows."""
NOT_FOR_WORKERS = ("RECOMPOSE_TOKEN",)
"""What Ray's processes, and the apps in them, do not inherit: whoever holds it commands the service."""
NOT_NEEDED = ("start_monitor", "start_api_server")
"""What Ray starts beside what is used of it, a process each, and waits for the second: its autoscaler, which asks a
cloud for machines, and the server of its dashboard, which it starts without the dashboard too."""
TOKEN_FROM = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""Where Ray looks for a token before its own file."""


@contextmanager
def environment() -> Iterator[None]:
    """What a Ray that is started inside inherits. Ray reads its mode of authentication again at each start, and turns
    the token on when nobody said anything; its switch of clusters off means addresses of loopback."""
    taken = {name: os.environ.pop(name, None) for name in (*NOT_FOR_WORKERS, ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR)}
    os.environ.pop("RAY_AUTH_MODE", None)
    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
    clusters, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False  # it was read at the import
    starts = {name: getattr(Node, name) for name in NOT_NEEDED}
    try:
        for name in starts:
            setattr(Node, name, lambda *_, **__: None)
        yield
    finally:
        for name, start in starts.items():
            setattr(Node, name, start)
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        os.environ.pop(ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR)
        os.environ.update({name: value for name, value in taken.items() if value is not None})


def guard_token(home: Path | None = None, given: Mapping[str, str] = os.environ) -> None:
    """Makes Ray's token where Ray would, readable by this user only; Ray itself leaves it to everybody."""
    if any(name in given for name in TOKEN_FROM):
        return
    file = (home or Path.home()) / ".ray" / "auth_token"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent) as made:
        made.write(secrets.token_hex(32))
        made.flush()
        try:
            os.link(made.name, file)  # whole or not at all: another process may be about to read it
        except FileExistsError:
            file.chmod(0o600)


def make_folder() -> Path:
    """A folder for Ray's sockets and logs that no other user can enter; those of processes that are gone go."""
    base = Path(os.environ.get("RAY_TMPDIR") or "/tmp")  # not TMPDIR: a socket's path has 107 bytes at most
    _sweep(base)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base)) / "ray"


def remove_folder(folder: Path) -> None:
    """Removes what ``make_folder`` made; Ray must have ended."""
    shutil.rmtree(folder.parent, ignore_errors=True)


def _sweep(base: Path) -> None:
    for folder in base.glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)) and _is_mine(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_mine(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid()
    except FileNotFoundError:  # another process sweeps as well
        return False
