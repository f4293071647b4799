"""The synthetic app: stages f1, f2, … of known cost, whose result shows which stages an item has passed.

After Vogel et al., section 4: three functions, 24 ms in all, balanced 2:2:2 or unbalanced 1:3:2.
"""

import hashlib
import math
import os
import signal
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial, partialmethod
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, field_validator

from apps.contract import App, Options
from compositions.errors import RecomposeError
from compositions.model import Stage

_NORMAL = NormalDist()


class Costs:
    """The service time of every (item, stage), in seconds; the same in every process for the same options."""

    def __init__(self, options: "SyntheticOptions") -> None:
        self._options = options
        weights = options.stage_weights
        self._means_s = tuple(options.total_ms / 1000 * weight / sum(weights) for weight in weights)
        self._phases = options.phase_table
        self._phase_starts = [first for first, _ in self._phases]

    def of(self, item: int, stage: int) -> float:
        """Return the seconds that stage number ``stage`` (from 0) takes for ``item``."""
        factors = self._phases[bisect_right(self._phase_starts, item) - 1][1]
        drift = 1.0 + (self._options.drift - 1.0) * item / max(1, self._options.items - 1)
        return self._means_s[stage] * factors[stage] * drift * self._variation(item, stage)

    def _variation(self, item: int, stage: int) -> float:
        if self._options.distribution == "constant":
            return 1.0
        u = uniform(self._options.seed, item, stage)
        return (lognormal if self._options.distribution == "lognormal" else pareto)(u, self._options.cv)


def uniform(seed: int, item: int, stage: int) -> float:
    """Return a number strictly between 0 and 1 that looks random but is the same everywhere."""
    digest = hashlib.blake2b(f"{seed}:{item}:{stage}".encode(), digest_size=6).digest()
    return (int.from_bytes(digest) + 0.5) / 2**48


def lognormal(u: float, cv: float) -> float:
    """Return quantile ``u`` of the lognormal distribution with mean 1."""
    variance = math.log1p(cv * cv)
    return math.exp(math.sqrt(variance) * _NORMAL.inv_cdf(u) - variance / 2)


def pareto(u: float, cv: float) -> float:
    """Return quantile ``1 − u`` of the Pareto distribution with mean 1: shape ``1 + sqrt(1 + 1/cv²)``."""
    shape = 1.0 + math.sqrt(1.0 + 1.0 / (cv * cv))
    return float((shape - 1.0) / shape * u ** (-1.0 / shape))


_BYTES = 8
_PROBE = 64
"""Number of payload bytes checked at either end: a full checksum of a frame would cost more than a hop."""


def first_link(seed: int, item: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{item}".encode(), digest_size=_BYTES).digest()


def next_link(link: bytes, stage: str, payload: NDArray[np.uint8] | None = None) -> bytes:
    """Return the chained checksum after ``stage``; a truncated or swapped payload changes it."""
    return hashlib.blake2b(link + stage.encode() + probe(payload), digest_size=_BYTES).digest()


def probe(payload: NDArray[np.uint8] | None) -> bytes:
    if payload is None:
        return b""
    ends = payload[:_PROBE].tobytes() + payload[-_PROBE:].tobytes()
    return f"{len(payload)}:{zlib.crc32(ends)}".encode()


def _listed(value: Any) -> Any:
    """Parse ``"3,5"`` or ``3`` of the command line."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    return tuple(filter(None, value.replace(" ", "").split(","))) if isinstance(value, str) else value


ItemNumbers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_listed)]


class SyntheticOptions(Options):
    """The options: costs of an item, and faults. Item numbers count from 0 in the data set."""

    weights: str = "2:2:2"
    """Relative service time of each stage; there are as many stages as numbers. The paper has 2:2:2 and 1:3:2."""
    total_ms: float = Field(default=24.0, ge=0, le=3_600_000)
    """Mean service time of an item over all stages, in milliseconds (24 in the paper)."""
    compute: Literal["cpu", "wait"] = "cpu"
    """``cpu`` computes for this much CPU time; ``wait`` sleeps, as for an accelerator or a remote call."""
    items: int = Field(default=10_000, ge=1)
    """Length of the data set (10,000 in the paper)."""
    distribution: Literal["constant", "lognormal", "pareto"] = "constant"
    cv: float = Field(default=0.5, gt=0, le=10)
    """Coefficient of variation of lognormal and pareto service times."""
    drift: float = Field(default=1.0, gt=0, le=1000)
    """Factor of the service times at the end of the data set; it grows linearly from 1."""
    phases: str = ""
    """``"5000=2,8000=1:3:1"``: from item 5000 on all stages take twice as long, from 8000 on the second three times."""
    payload_bytes: int = Field(default=0, ge=0, le=1 << 30)
    """An array of this size travels with every item."""
    seed: int = 0
    time_limit_s: float | None = Field(default=None, gt=0)
    """Wall time after which a stage counts as hung."""
    fail_at: ItemNumbers = ()
    """Items for which the second stage (or the only one) raises."""
    hang_at: ItemNumbers = ()
    """Items for which that stage sleeps for ``hang_s``."""
    hang_s: float = Field(default=600.0, gt=0)
    kill_at: ItemNumbers = ()
    """Items for which that stage kills its process, every time; not for workers that are threads."""

    @property
    def stage_weights(self) -> tuple[float, ...]:
        return parse_factors(self.weights)

    @property
    def phase_table(self) -> tuple[tuple[int, tuple[float, ...]], ...]:
        """(first item, one factor a stage), ascending, beginning with item 0."""
        return parse_phases(self.phases, len(self.stage_weights))

    @field_validator("weights")
    @classmethod
    def _check_weights(cls, text: str) -> str:
        if not any(parse_factors(text)):
            raise ValueError(f"weights {text!r}: at least one of them must be above 0")
        return text

    @field_validator("phases")
    @classmethod
    def _check_phases(cls, text: str, info: Any) -> str:
        if "weights" in info.data:
            parse_phases(text, len(parse_factors(info.data["weights"])))
        return text


def parse_factors(text: str) -> tuple[float, ...]:
    """Parse ``"1:3:2"``. Raises: ValueError unless there are 1 to 64 numbers, each 0 to a million."""
    try:
        factors = tuple(float(part) for part in text.split(":"))
    except ValueError:
        factors = ()
    if not (0 < len(factors) <= 64 and all(0 <= factor <= 1e6 for factor in factors)):
        raise ValueError(f"{text!r} must be 1 to 64 numbers from 0 to a million with colons between, as in '1:3:2'")
    return factors


def parse_phases(text: str, stages: int) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """Parse ``SyntheticOptions.phases``. Raises: ValueError with a sentence."""
    table = {0: (1.0,) * stages}
    for part in filter(None, text.replace(" ", "").split(",")):
        first, _, factors = part.partition("=")
        values = parse_factors(factors) if first.isdecimal() and factors else ()
        if len(values) not in (1, stages):
            raise ValueError(f"phase {part!r} must be ITEM=FACTOR, or ITEM= and {stages} factors with colons between")
        table[int(first)] = values * stages if len(values) == 1 else values
    return tuple(sorted(table.items()))


_STEPS = 100
"""Number of additions between two clock reads: about 5 µs, which bounds the overshoot; a read takes 0.7 µs."""


def burn(cpu_s: float, since_s: float) -> None:
    """Compute until this thread has used ``cpu_s`` of CPU time since ``since_s`` of ``time.thread_time``. CPU time is
    used so that an item costs the same when workers share a core."""
    until_s = since_s + cpu_s
    value = 1.0
    while time.thread_time() < until_s:
        for _ in range(_STEPS):
            value = value * 0.999 + 0.5


def rest(wall_s: float, since_s: float) -> None:
    """Sleep until ``wall_s`` after ``since_s`` of ``time.perf_counter``."""
    left_s = since_s + wall_s - time.perf_counter()
    if left_s > 0:
        time.sleep(left_s)


class Work(NamedTuple):
    """An item in the pipeline: its number in the data set, the chain so far, and ballast."""

    item: int
    chain: bytes
    payload: NDArray[np.uint8] | None


class Synthetic(App):
    name = "synthetic"
    description = "Functions of a given cost, busy or waiting; the result proves which stages an item passed."
    stages: tuple[Stage, ...] = (Stage("f1"), Stage("f2"), Stage("f3"))
    options_model: ClassVar[type[Options]] = SyntheticOptions

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        assert isinstance(self.options, SyntheticOptions)
        self._options = self.options
        self._costs = Costs(self._options)
        count = len(self._options.stage_weights)
        self.stages = tuple(Stage(f"f{k}", time_limit_s=self._options.time_limit_s) for k in range(1, count + 1))
        for k in range(len(Synthetic.stages), count):
            setattr(self, f"f{k + 1}", partial(self._work, k))
        self._faulty_stage = min(1, count - 1)

    def _work(self, stage: int, value: Work) -> Work:
        began_cpu_s, began_s = time.thread_time(), time.perf_counter()
        if stage == self._faulty_stage:
            self._go_wrong(value.item)
        chain = next_link(value.chain, self.stages[stage].name, value.payload)
        cost_s = self._costs.of(value.item, stage)
        if self._options.compute == "cpu":
            burn(cost_s, began_cpu_s)
        else:
            rest(cost_s, began_s)
        return Work(value.item, chain, value.payload)

    f1, f2, f3 = partialmethod(_work, 0), partialmethod(_work, 1), partialmethod(_work, 2)

    def _go_wrong(self, item: int) -> None:
        if item in self._options.fail_at:
            raise ValueError(f"item {item} fails, because option fail_at lists it")
        if item in self._options.hang_at:
            time.sleep(self._options.hang_s)
        if item in self._options.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def items(self, path: Path | None) -> Iterator[Work]:
        if path is not None:
            raise RecomposeError(f"app 'synthetic' makes its items and accepts no path, but {str(path)!r} was given")
        return (self._item(number) for number in range(self._options.items))

    def from_json(self, value: Any) -> Work:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{value!r} is no item of app 'synthetic'; must be an item number, 0 or more")
        return self._item(value)

    def _item(self, number: int) -> Work:
        payload = None
        if self._options.payload_bytes:
            payload = np.full(self._options.payload_bytes, number % 251, dtype=np.uint8)
        return Work(number, first_link(self._options.seed, number), payload)

    def encode_result(self, value: Work) -> dict[str, Any]:
        return {"item": value.item, "chain": value.chain.hex()}
