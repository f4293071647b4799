"""Workers that have names, as they may outlive the pool that started them (``orphan_s``)."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

import ray
from ray.util import list_named_actors


def new_name(owner: str) -> str:
    """For a worker of ``owner``, the hosted object that has the pool."""
    return f"{owner}/{secrets.token_hex(8)}"


def workers_of(owner: str) -> list[Any]:
    """Those that are alive, also of a pool that is gone."""
    found = []
    for name in list_named_actors():
        if name.startswith(f"{owner}/"):
            with suppress(ValueError):  # it has just ended
                found.append(ray.get_actor(name))
    return found


def end_workers_of(owner: str) -> None:
    """At once, also one that hangs; none where the owner is alive, as one that was started anew by now is."""
    if not ray.is_initialized():  # to ask would start one
        return
    with suppress(ValueError):
        ray.get_actor(owner)
        return
    for worker in workers_of(owner):
        ray.kill(worker, no_restart=True)
