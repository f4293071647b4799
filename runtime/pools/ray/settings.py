"""Settings of the ``ray`` pool, each with its range and the reason for its default."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal, NamedTuple

from compositions.model import Loads, Stage, held_by
from compositions.resources import Need, need_of
from compositions.settings import check, ranged
from runtime.arena.reference import ArenaSettings
from runtime.transport.connection import LobbySettings


class Ways(NamedTuple):
    """The ways in which workers connect to the hub: by a ``unix`` socket from this host; by the encrypted network, if
    the cluster has ``network_from`` machines or more."""

    unix: bool
    network_from: float


WAYS = {"unix": Ways(True, inf), "tcp": Ways(False, 0), "auto": Ways(True, 2)}


@dataclass(frozen=True, slots=True)
class RayPoolSettings:
    worker_cpus: float = ranged(0.0, 0, 1024)
    """Ray CPUs that a worker reserves. 0: cores do not limit the number of workers, which suits stages that wait."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """Custom Ray resources that a worker reserves, to keep it on certain nodes."""
    stages: tuple[Stage, ...] = ()
    """The app's stages with their resource needs."""
    transport: Literal["auto", "unix", "tcp"] = "auto"
    """``unix``: this host only. ``tcp``: encrypted, for all workers. ``auto``: unix here, tcp on other nodes."""
    start_timeout_s: float = ranged(60.0, 0.1, 3600, "s")
    """Maximum time from the start of a worker's process to the end of its ``setup``, in seconds. Loading a database of
    10,000 images takes seconds. The time that Ray takes to start the process counts separately, up to five times as
    much."""
    leave_s: float = ranged(2.0, 0, 60, "s")
    """Maximum time for which ``close`` waits for workers to end by themselves, before it kills them."""
    suspect_s: float = ranged(30.0, 0, 3600, "s")
    """Time for which no worker is started on a machine that lost its last worker, if another has room: Ray takes about
    12 s to notice that a machine is gone, and places workers there until then."""
    lease_s: float = ranged(30.0, 1, 3600, "s")
    """Time after which the service replaces a runner that does not answer (disconnected or hung), in seconds. A runner
    that has ended is replaced at once. After a shorter network failure, its calls continue within seconds."""
    orphan_s: float = ranged(30.0, 0, 3600, "s")
    """Time for which workers outlive a runner that moved, or died in a durable run, so that the next runner can take
    them over without another setup. Must exceed a runner's start time; the workers keep their memory meanwhile. 0: they
    end with their runner."""
    worker_memory_mb: float = ranged(0.0, 0, 1e9, "MB")
    """Maximum memory of a worker and the processes that it starts, without shared memory, in MB. A worker that exceeds
    it ends with a message, and its item is tried again; an item that costs too many workers becomes a dead letter. 0:
    no limit."""
    worker_processes: int = ranged(0, 0, 1_000_000)
    """Maximum number of processes of a worker and its children; a worker that exceeds it ends likewise. 0: no limit."""
    arena: ArenaSettings = field(default_factory=ArenaSettings)
    lobby: LobbySettings = field(default_factory=LobbySettings)

    def need_of_worker(self, loads: Loads) -> Need:
        """Return the resources that a worker of this class reserves, for its stages and by these settings."""
        need = need_of(held_by(self.stages, loads))
        cpus = max(need.cpus or 0.0, self.worker_cpus) or None
        return replace(need, cpus=cpus, custom={**need.custom, **self.resources})


def ways_of(settings: RayPoolSettings) -> Ways:
    """Return the ways of the settings' transport. Raises: SettingsError for a setting out of range."""
    check(settings)
    return WAYS[settings.transport]
