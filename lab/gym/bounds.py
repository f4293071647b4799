"""Keep what searching for bounds took long to find, for the plays of the suite: ``python -m lab.gym.bounds``.

Each is kept under a digest of all that decides it, the plant's version included, so that none is used for another play.
"""

from __future__ import annotations

import hashlib
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from lab.gym.floor import floor_of
from lab.gym.hindsight import search
from lab.gym.model import Play
from lab.gym.plant import VERSION
from lab.gym.suite import SUITE, Pair

KEPT = Path(__file__).parent / "recorded" / "bounds.json"


@dataclass(frozen=True, slots=True)
class Bound:
    """Bounds on the least cost of a play: mean cost of the workers alive over the judged time."""

    floor: float
    """A cost that no schedule can undercut."""
    found: float
    """Lowest cost that was found to hold the objective; infinite if none was found."""
    schedule: str
    fixed: float
    """Lowest cost of a fixed composition that was found."""


def bound_of(play: Play) -> Bound:
    """Return the bound of a play, from the kept ones if it is among them."""
    kept = _kept().get(digest(play))
    return kept if kept is not None else searched(play)


def searched(play: Play) -> Bound:
    """Search for the bound of a play."""
    found = search(play)
    return Bound(floor_of(play), found.cost, found.name, found.fixed)


def digest(play: Play) -> str:
    """Return a digest that distinguishes a play from all others."""
    decided_by = repr((VERSION, play.stages, play.machine, play.bound_s, play.share, play.duration_s, play.opening))
    sums = hashlib.sha256(decided_by.encode())
    for array in (play.work.due_s, play.work.cpu_s, play.work.wait_s):
        sums.update(array.round(9).tobytes())
    return sums.hexdigest()[:16]


@cache
def _kept() -> dict[str, Bound]:
    if not KEPT.exists():
        return {}
    return {key: Bound(**values) for key, (_, values) in json.loads(KEPT.read_text(encoding="utf-8")).items()}


def _searched(pair: Pair) -> tuple[str, str, Bound]:
    play = pair.play()
    bound = bound_of(play)
    return digest(play), pair.name, bound


def main() -> None:
    """Search for the bounds of the suite's plays that are not kept yet, and keep them."""
    pairs = [pair for pair in SUITE if len(sys.argv) < 2 or pair.part == sys.argv[1]]
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    with ProcessPoolExecutor() as processes:
        for key, name, bound in processes.map(_searched, pairs):
            kept[key] = [name, asdict(bound)]
            print(name, bound, flush=True)
            KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
