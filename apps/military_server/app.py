"""Military Server: find the best places for units on a map, from what drones see (Leonarczyk 2024, section 4.2).

No source or data of the original (Araujo et al.) is public: this is a reconstruction from its description, with the
same five stages, tuples and workload. A drone has coordinates to look around from, and units to place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from apps.contract import App, Options
from apps.military_server.kernels.choice import KernelName, load_kernel
from apps.military_server.records import Row, filled, given, ints, joined, on_host, parted, taken
from apps.military_server.terrain import (
    CHECKED,
    COORDINATES,
    EXPLORED,
    KINDS,
    MISSION,
    PLACED,
    SENT,
    SIDE,
    STORED,
    UNITS,
    WIDEST,
    Records,
    terrain,
)
from apps.rates import Binary, Decreasing, Increasing, Spike, Wave
from compositions.errors import RecomposeError
from compositions.model import Stage

Loads = NDArray[np.float64]
PATTERNS = {"increasing": Increasing, "spike": Spike, "decreasing": Decreasing, "binary": Binary, "wave": Wave}


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase: ``cycles`` repetitions of a pattern over ``tuples_a_cycle`` tuples, between two loads 0..1."""

    pattern: str
    tuples_a_cycle: int
    cycles: int
    low: float = 0.0
    high: float = 1.0

    @property
    def tuples(self) -> int:
        return self.tuples_a_cycle * self.cycles

    def loads(self) -> Loads:
        """Return the load of each tuple."""
        pattern = PATTERNS[self.pattern](float(self.tuples_a_cycle), self.low, self.high)
        return np.tile([pattern(float(tuple_)) for tuple_ in range(self.tuples_a_cycle)], self.cycles)


PHASES = (
    Phase("increasing", 200_000, 1),
    Phase("spike", 20_000, 5),
    Phase("decreasing", 200_000, 1),
    Phase("binary", 40_000, 5),
    Phase("wave", 30_000, 10),
)
"""Table 4.1: 20, 10, 20, 20 and 30 % of a million tuples."""


@cache
def phase_workload() -> Loads:
    """Return the thesis's million tuples, made once per process in a third of a second; read-only."""
    return loads_of(PHASES)


def loads_of(phases: Sequence[Phase]) -> Loads:
    """Return the loads of the phases, one after the other."""
    return np.concatenate([phase.loads() for phase in phases])


def scaled(loads: Loads, tuples: int) -> Loads:
    """Return the same phases, scaled to a number of tuples."""
    return loads[np.arange(tuples) * len(loads) // tuples]


AT_A_TIME = 4096
Widths = NDArray[np.int64]


def phase_widths(tuples: int, narrowest: int, widest: int) -> Widths:
    """Return the area's width for each tuple by the load; the number of squares to examine is its square."""
    return np.rint(narrowest + scaled(phase_workload(), tuples) * (widest - narrowest)).astype(np.int64)


def sent_by_drones(widths: Widths, seed: int) -> Iterator[bytes]:
    """Return a record for each width, at random places of the map, with random units."""
    chance = np.random.default_rng(seed)
    for start in range(0, len(widths), AT_A_TIME):
        part = widths[start : start + AT_A_TIME]
        records = np.empty(len(part), SENT)
        records["drone"] = np.arange(start, start + len(part))
        records["width"] = part
        records["coordinates"] = chance.integers(WIDEST, SIDE - WIDEST, (len(part), COORDINATES, 2), np.uint16)
        records["kinds"] = chance.integers(0, KINDS, (len(part), UNITS), np.uint8)
        yield from parted(records)


_STORED = Struct(f"=qB{2 * UNITS}H")
"""Packs one record of ``STORED`` ten times as fast as NumPy."""


class MilitaryOptions(Options):
    tuples: int = Field(default=1_000_000, ge=1, le=1_000_000_000, description="Length of the phase workload")
    narrowest: int = Field(default=2, ge=1, le=WIDEST, description="Coordinate width of the easiest tuple, in squares")
    widest: int = Field(
        default=12, ge=1, le=WIDEST, description="Coordinate width of the hardest tuple; the cost grows with its square"
    )
    kernel: KernelName = Field(
        default="compiled", description="compiled: by numba; numpy: without a compiler; gpu: numba on CUDA"
    )
    share: float = Field(default=1.0, gt=0, le=1, description="Share of a GPU that a worker with kernel gpu reserves")
    seed: int = Field(default=0, ge=0, description="Seed of the map, the coordinates and the units")

    @field_validator("widest")
    @classmethod
    def _check_widest(cls, widest: int, info: ValidationInfo) -> int:
        if widest < info.data.get("narrowest", 1):
            raise ValueError(f"widest = {widest} is below narrowest = {info.data['narrowest']}")
        return widest


class MilitaryServer(App):
    name = "military_server"
    description = "Places units on a map from what drones see; every stage takes a bundle at once."
    stages: tuple[Stage, ...] = tuple(
        Stage(name, batch=True) for name in ("load", "map", "map_reduce", "reduce", "store")
    )
    computing: ClassVar = frozenset(("map", "map_reduce", "reduce"))
    """The stages that a kernel computes."""
    options_model: ClassVar[type[Options]] = MilitaryOptions
    options: MilitaryOptions

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        if self.options.kernel == "gpu":
            computing = Stage("", batch=True, gpus=self.options.share, setup="per-group")
            on_gpu = {name: replace(computing, name=name) for name in self.computing}
            self.stages = tuple(on_gpu.get(each.name, each) for each in self.stages)

    def setup(self, stages: Sequence[str]) -> None:
        """Load the kernel if the worker runs a stage that uses it."""
        if self.computing.intersection(stages):
            self._kernel = load_kernel(self.options.kernel, terrain(self.options.seed))

    # --- the stages: A to E in the thesis ---

    def load(self, values: list[bytes]) -> list[bytes]:
        """Parse a drone's message. Raises: ValueError if its coordinates or units are invalid."""
        missions = joined(values, SENT).astype(MISSION)
        _check(missions)
        return parted(missions)

    def map(self, values: list[bytes]) -> list[bytes | Row]:
        """Return the features of the ground around each coordinate."""
        missions = joined(values, MISSION)
        features = self._kernel.explore(ints(missions["width"]), ints(missions["coordinates"]))
        return given(EXPLORED, missions, features=features)

    def map_reduce(self, values: list[bytes | Row]) -> list[bytes | Row]:
        """Return the best coordinate of every unit."""
        explored = taken(values, EXPLORED)
        best, penalties = self._kernel.place(ints(explored["features"]), ints(explored["kinds"]))
        at = np.take_along_axis(explored["coordinates"], on_host(best)[:, :, None], axis=1)
        return given(PLACED, explored, at=at, penalties=penalties)

    def reduce(self, values: list[bytes | Row]) -> list[bytes | Row]:
        """Return the number of units that are placed well."""
        placed = taken(values, PLACED)
        return given(CHECKED, placed, fit=on_host(self._kernel.fit(ints(placed["penalties"]))))

    def store(self, values: list[bytes | Row]) -> list[bytes]:
        """Return the output: the place of each unit."""
        return parted(filled(STORED, taken(values, CHECKED)))

    # --- what comes and goes ---

    def items(self, path: Path | None) -> Iterator[bytes]:
        if path is not None:
            own = f"app {self.name!r} makes its own tuples and accepts no path"
            raise RecomposeError(f"{own}, but {str(path)!r} was given")
        widths = phase_widths(self.options.tuples, self.options.narrowest, self.options.widest)
        return sent_by_drones(widths, self.options.seed)

    def from_binary(self, value: bytes | NDArray[Any]) -> bytes:
        if not isinstance(value, bytes) or len(value) != SENT.itemsize:
            raise ValueError(
                f"a tuple has {SENT.itemsize} bytes in the drones' format; see docs/apps/military_server.md"
            )
        return value

    def from_json(self, value: Any) -> bytes:
        try:
            record = np.zeros(1, SENT)
            record["drone"], record["width"] = value["drone"], value["width"]
            record["coordinates"] = _shaped(value["coordinates"], (COORDINATES, 2))
            record["kinds"] = _shaped(value["kinds"], (UNITS,))
            _check(record)
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(
                f"{value!r} is no tuple: {error}; must be an object with numbers drone and width, {COORDINATES} "
                f"coordinates [x, y] and the kinds of {UNITS} units"
            ) from error
        return record.tobytes()

    def encode_result(self, value: bytes) -> dict[str, Any]:
        drone, fit, *at = _STORED.unpack(value)
        return {"drone": drone, "fit": fit, "units": at}


def _shaped(value: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    array = np.array(value, np.int64)
    if array.shape != shape:
        raise ValueError(f"array of {' × '.join(map(str, array.shape))} numbers; must be {' × '.join(map(str, shape))}")
    return array


def _check(missions: Records) -> None:
    """Check a record. Raises: ValueError unless widths, coordinates and kinds fit this map."""
    for name, least, most in (
        ("width", 1, WIDEST), ("coordinates", WIDEST, SIDE - WIDEST - 1), ("kinds", 0, KINDS - 1),
    ):  # fmt: skip
        values = missions[name]
        if values.min() < least or values.max() > most:
            wrong = values[(values < least) | (values > most)].flat[0]
            raise ValueError(f"{name} has {wrong}; must be from {least} to {most}")
