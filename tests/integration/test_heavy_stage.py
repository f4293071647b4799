"""A stage that takes long and much memory to load, among light ones, on a real Ray: who loads it, and what it takes."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from apps.registry import create
from compositions.notation import parse
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.ray import cluster as ray_cluster
from runtime.pools.ray.pool import RayPool
from runtime.pools.ray.settings import RayPoolSettings

MB = 10**6
HEAVY_MB, LIGHT_MB = 300, 65
"""Declared by the app; ``LIGHT_MB`` is what a worker takes that has loaded nothing."""
PATIENCE_S = 120.0
APP = f"""
import time
from pathlib import Path
from apps.contract import App, Options
from compositions.model import Stage

class Notes(Options):
    folder: Path

class Heavy(App):
    name = "heavy"
    options_model = Notes
    stages = (
        Stage("read", memory="{LIGHT_MB}MB"),
        Stage("find", memory="{HEAVY_MB}MB", setup="per-group"),
        Stage("write"),
    )

    def setup(self, stages):
        (self.options.folder / f"{{time.monotonic_ns()}} {{'+'.join(stages)}}").touch()
        if "find" in stages:
            self.model = bytearray(b"1" * {HEAVY_MB * MB})
            time.sleep(3)

    def read(self, number):
        return number

    def find(self, number):
        return number + self.model[number] - 49

    def write(self, number):
        time.sleep(0.005)
        return number
"""


class Scene:
    """An engine on Ray's workers, fed without a pause; it watches their memory."""

    def __init__(self, folder: Path) -> None:
        (folder / "heavy.py").write_text(APP)
        self.notes = folder / "notes"
        self.notes.mkdir()
        make_app = partial(create, "heavy", {"folder": str(self.notes)}, [folder])
        self.stages = make_app().stages
        names = [stage.name for stage in self.stages]
        self.pool = RayPool(make_app, names, RayPoolSettings(stages=self.stages))
        settings = DispatcherSettings(spares=0, idle_worker_s=0.0)
        self.engine = Engine(Dispatcher(self.stages, self.composition("Seq-Seq-Seq"), settings), self.pool)
        self.serials: list[int] = []
        self.peak_bytes = 0
        self._look_s = 0.0

    def composition(self, notation: str):
        return parse(notation, self.stages, name=notation)

    def run(self, done) -> None:
        deadline_s = self.engine.now_s + PATIENCE_S
        while not done():
            assert self.engine.now_s < deadline_s, self.engine.view()
            if self.engine.has_room:
                self.engine.admit(self.pool.codec.encode([len(self.serials)]), (self.engine.now_s,))
            out = self.engine.advance(self.engine.now_s + 0.05)
            self.serials += [each.serials[0] for each in out if isinstance(each, Delivered) and each.error is None]
            if self.engine.now_s > self._look_s:
                self._look_s = self.engine.now_s + 0.1
                self.peak_bytes = max(self.peak_bytes, sum(self.memory().values()))

    def switch(self, notation: str) -> None:
        self.engine.switch(self.composition(notation))
        self.run(lambda: not self.engine.view().switching)
        assert self.engine.view().composition.name == notation

    def memory(self) -> dict[int, int]:
        """Return the memory of each worker that it shares with no other process, by its number."""
        found = {}
        for pid in [member.pid for member in self.pool._members.values() if member.pid]:
            try:
                found[pid] = psutil.Process(pid).memory_full_info().uss
            except psutil.NoSuchProcess:
                continue
        return found

    def loaded(self) -> Counter[bool]:
        return Counter("find" in each.name for each in self.notes.iterdir())

    def planned_bytes(self, notation: str) -> int:
        crew = self.composition(notation).crew(self.stages)
        settings = RayPoolSettings(stages=self.stages)
        return sum(count * settings.need_of_worker(loads).memory_bytes for loads, count in crew.items())


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    ray_cluster.connect()
    made = Scene(tmp_path)
    yield made
    made.engine.close()
    ray_cluster.shutdown()


@pytest.mark.long
def test_only_its_own_workers_load_a_heavy_stage_and_memory_is_as_planned(scene: Scene) -> None:
    scene.engine.start()
    scene.run(lambda: len(scene.serials) > 50)
    assert scene.loaded() == {True: 1, False: 2}
    heavy = [pid for pid, used in scene.memory().items() if used > HEAVY_MB * MB]
    assert len(heavy) == 1
    at_first = scene.peak_bytes / scene.planned_bytes("Seq-Seq-Seq")
    assert at_first <= 1.15
    scene.switch("Seq(read)-Seq(find,write)")
    scene.switch("Seq-Seq-Par*3")
    assert scene.loaded()[True] == 1, "regrouped with light stages, it is not loaded again"
    at_most = scene.peak_bytes / scene.planned_bytes("Seq-Seq-Par*3")
    assert at_most <= 1.15
    began_s = time.monotonic()
    os.kill(heavy[0], signal.SIGKILL)
    scene.run(lambda: scene.loaded()[True] >= 2 and len(scene.memory()) >= 5)
    seen = len(scene.serials)
    scene.run(lambda: len(scene.serials) > seen + 50)
    took_s = time.monotonic() - began_s
    assert scene.serials == list(range(len(scene.serials)))
    print(f"memory {at_first:.2f} and {at_most:.2f} of the plan; again after {took_s:.1f} s")
    print({pid: round(used / MB) for pid, used in scene.memory().items()}, scene.loaded())
