"""Military Server: its stages against a plain loop over the description, kernels against each other, its workload."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from apps import registry
from apps.military_server import MilitaryOptions, MilitaryServer
from apps.military_server.kernels import choice, compiled, vectors
from apps.military_server.terrain import KINDS, MOST_PENALTY, SIDE, WANTED, WEIGHTS, WET, WIDEST, WOODED, terrain

NAMES = tuple(stage.name for stage in MilitaryServer.stages)
MAP = terrain(0)
APP = MilitaryServer()
APP.setup(MilitaryServer.computing)
Tuple = tuple[int, int, Sequence[tuple[int, int]], Sequence[int]]


def server(**options: Any) -> MilitaryServer:
    app = MilitaryServer(MilitaryOptions(**options))
    app.setup(MilitaryServer.computing)
    return app


def sent(each: Tuple) -> bytes:
    """As a drone sends it: big-endian, without gaps."""
    drone, width, coordinates, kinds = each
    flat = [number for at in coordinates for number in at]
    return struct.pack(">qH64H16B", drone, width, *flat, *kinds)


def received(record: bytes) -> Tuple:
    drone, width, *rest = struct.unpack(">qH64H16B", record)
    return drone, width, list(zip(rest[0:64:2], rest[1:64:2], strict=True)), rest[64:]


def plain(each: Tuple) -> dict[str, Any]:
    """What the server is to find, square by square."""
    drone, width, coordinates, kinds = each
    seen = [around(x, y, width) for x, y in coordinates]
    units: list[int] = []
    fit = 0
    for kind in kinds:
        penalties = [unlike(features, kind) for features in seen]
        least = min(penalties)
        units.extend(coordinates[penalties.index(least)])
        fit += least <= MOST_PENALTY
    return {"drone": drone, "fit": fit, "units": units}


def around(x: int, y: int, width: int) -> tuple[int, ...]:
    aside = range(-(width // 2), width - width // 2)
    ahead = range(1, width + 1)
    squares = [(x + a, y - f) for a in aside for f in ahead] + [(x + a, y + f) for a in aside for f in ahead]
    squares += [(x + f, y + a) for a in aside for f in ahead] + [(x - f, y + a) for a in aside for f in ahead]
    heights = [int(MAP.heights[row, column]) for column, row in squares]
    ground = [int(MAP.ground[row, column]) for column, row in squares]
    mean = sum(heights) // len(heights)
    shares = [1000 * ground.count(kind) // len(ground) for kind in (WET, WOODED)]
    return (mean, max(heights) - min(heights), *shares)


def unlike(features: Sequence[int], kind: int) -> int:
    wanted, weights = WANTED[kind].tolist(), WEIGHTS[kind].tolist()
    return sum(w * abs(f - g) for f, g, w in zip(features, wanted, weights, strict=True))


def through(app: MilitaryServer, records: Sequence[bytes]) -> list[Any]:
    values = list(records)
    for name in NAMES:
        values = getattr(app, name)(values)
    return [app.encode_result(value) for value in values]


@pytest.mark.parametrize("kernel", ["numpy", "compiled"])
def test_a_bundle_gives_what_a_plain_loop_gives(kernel: str) -> None:
    app = server(tuples=40, narrowest=1, widest=12, kernel=kernel)
    records = list(app.items(None))
    assert through(app, records) == [plain(received(record)) for record in records]


def inputs(count: int, most: int) -> dict[str, Any]:
    chance = np.random.default_rng(7)
    return {
        "widths": chance.integers(1, most + 1, count).astype(np.int32),
        "coordinates": chance.integers(WIDEST, SIDE - WIDEST, (count, 32, 2)).astype(np.int32),
        "kinds": chance.integers(0, KINDS, (count, 16)).astype(np.int32),
    }


def answers(make: Callable[[Any], Any], widths: Any, coordinates: Any, kinds: Any) -> list[Any]:
    kernel = make(MAP)
    features = kernel.explore(widths, coordinates)
    best, penalties = kernel.place(features, kinds)
    return [features, best, penalties, kernel.fit(penalties)]


def test_compiled_and_vectors_give_the_same_also_for_the_widest() -> None:
    found = (answers(make, **inputs(60, WIDEST)) for make in (vectors.VectorKernel, compiled.CompiledKernel))
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype == np.int32
        assert (one == other).all()


ON_A_GPU = """
import pickle
from apps.military_server.kernels import choice, gpu, vectors
from apps.military_server.records import Row, on_device, on_host
from tests.unit.test_military_server import MAP, answers, inputs, server, through
assert choice.gpu_fault() is None
assert isinstance(choice.load_kernel("gpu", MAP), gpu.GpuKernel)
given = inputs(3, 3)
for one, other in zip(answers(gpu.GpuKernel, **given), answers(vectors.VectorKernel, **given), strict=True):
    assert on_device(one) and (on_host(one) == other).all()

app, plain = (server(tuples=4, narrowest=1, widest=3, kernel=kernel) for kernel in ("gpu", "numpy"))
records = list(app.items(None))
assert through(app, records) == through(plain, records)  # rows stay on the device from stage to stage
rows = app.map(app.load(records))
features = rows[0].bundle["features"]
assert on_device(features) and all(type(row) is Row for row in rows)
assert app.map_reduce(rows)[0].bundle["penalties"] is not None and rows[0].bundle["features"] is features
bytes_ = pickle.loads(pickle.dumps(rows))
assert bytes_ == plain.map(plain.load(records))  # to a worker of another group they go as bytes
mixed = [rows[2], bytes_[0], rows[1]]
assert pickle.loads(pickle.dumps(app.map_reduce(mixed))) == plain.map_reduce([bytes_[2], bytes_[0], bytes_[1]])
"""


@pytest.mark.parametrize("simulated", [True, False], ids=["simulated", "on a device"])
def test_a_gpu_gives_the_same(simulated: bool) -> None:
    """By numba's CUDA simulator everywhere, and on the device where there is one."""
    if not simulated and choice.gpu_fault():
        pytest.skip(f"no GPU can be used: {choice.gpu_fault()}")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1" if simulated else "0"}
    root = str(registry.__file__).removesuffix("/apps/registry.py")
    subprocess.run([sys.executable, "-c", ON_A_GPU], env=environment, cwd=root, check=True)


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(choice, "gpu_fault", lambda: "no driver")
    assert isinstance(choice.load_kernel("gpu", MAP), vectors.VectorKernel)
    told = capsys.readouterr().err
    assert told.strip() == "military_server: no GPU can be used (no driver); kernel numpy gives the same results"


def as_json(each: Tuple) -> dict[str, Any]:
    return {"drone": each[0], "width": each[1], "coordinates": list(map(list, each[2])), "kinds": list(each[3])}


GOOD: Tuple = (5, 3, [(100, 200)] * 32, [1] * 16)


def test_a_pushed_tuple_is_the_one_that_a_drone_sends() -> None:
    assert APP.from_json(as_json(GOOD)) == sent(GOOD)
    assert APP.from_binary(sent(GOOD)) == sent(GOOD)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"width": 0}, "width has 0; must be from 1 to 32"),
        ({"kinds": [8] * 16}, "kinds has 8; must be from 0 to 7"),
        ({"kinds": [1]}, "1 numbers; must be 16"),
        ({"coordinates": [[1, 2]] * 31}, "31 × 2 numbers; must be 32 × 2"),
        ({"drone": None}, "is no tuple"),
        (7, "is no tuple"),
    ],
)
def test_what_is_no_tuple_is_refused_with_a_sentence(change: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        APP.from_json({**as_json(GOOD), **change} if isinstance(change, dict) else change)


@pytest.mark.parametrize("wrong", [b"", sent(GOOD) + b"x", np.zeros(154, np.uint8)])
def test_what_is_no_record_is_refused_with_a_sentence(wrong: Any) -> None:
    with pytest.raises(ValueError, match="a tuple has 154 bytes"):
        APP.from_binary(wrong)


def test_a_record_that_is_off_the_map_fails_in_the_first_stage() -> None:
    off_the_map = sent(GOOD)[:10] + bytes([255]) * 128 + sent(GOOD)[138:]
    with pytest.raises(ValueError, match="coordinates has 65535; must be from 32 to 479"):
        APP.load([sent(GOOD), off_the_map])


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(registry.AppRefused, match="widest = 2 is below narrowest = 5"):
        registry.create("military_server", {"narrowest": 5, "widest": 2})
    with pytest.raises(Exception, match="accepts no path"):
        APP.items(registry.Path("x"))
