"""A stage that takes long and much memory to load, among light ones, on a real Ray: who loads it, and what it takes."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from rig import Rig

from apps.registry import create
from runtime.dispatch.events import SwitchStyle
from runtime.dispatch.settings import DispatcherSettings
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


class Fed(Rig):
    """Fed without a pause; the memory of the workers is watched."""

    peak_bytes, _look_s = 0, 0.0

    def run_until(self, done: Callable[[], bool]) -> None:
        def looked() -> bool:
            if self.engine.has_room:
                self.engine.admit(self._encoded([self.engine.view().accepted]), (self.engine.now_s,))
            if self.engine.now_s > self._look_s:
                self._look_s = self.engine.now_s + 0.1
                self.peak_bytes = max(self.peak_bytes, sum(self.memory().values()))
            return done()

        super().run_until(looked)

    def change(self, notation: str) -> None:
        self.switch(notation, SwitchStyle.SEAMLESS)
        self.run_until(lambda: not self.engine.view().switching)
        assert self.engine.view().composition.name == notation

    def memory(self) -> dict[int, int]:
        """Return the memory of each worker that it shares with no other process, by its number."""
        found = {}
        for pid in [member.pid for member in self.pool._members.values() if member.pid]:  # type: ignore[attr-defined]
            with suppress(psutil.NoSuchProcess):
                found[pid] = psutil.Process(pid).memory_full_info().uss
        return found

    def share_of_plan(self, notation: str) -> float:
        """Return the most memory that was taken, of what is planned for a composition."""
        settings, crew = RayPoolSettings(stages=self.stages), self.composition(notation).crew(self.stages)
        return self.peak_bytes / sum(n * settings.need_of_worker(loads).memory_bytes for loads, n in crew.items())


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Fed]:
    (tmp_path / "heavy.py").write_text(APP)
    make_app = partial(create, "heavy", {"folder": str(tmp_path)}, [tmp_path])
    stages = make_app().stages
    ray_cluster.connect()
    pool = RayPool(make_app, [stage.name for stage in stages], RayPoolSettings(stages=stages))
    settings = DispatcherSettings(spares=0, idle_worker_s=0.0)
    made = Fed(stages, pool, pool.codec, lambda _: None, patience_s=PATIENCE_S, settings=settings)
    yield made
    made.engine.close()
    ray_cluster.shutdown()


@pytest.mark.long
def test_only_its_own_workers_load_a_heavy_stage_and_memory_is_as_planned(rig: Fed, tmp_path: Path) -> None:
    def loaded() -> Counter[bool]:
        return Counter("find" in each.name for each in tmp_path.glob("[0-9]*"))

    rig.open("Seq-Seq-Seq")
    rig.run_until(lambda: len(rig.delivered) > 50)
    assert loaded() == {True: 1, False: 2}
    (heavy,) = (pid for pid, used in rig.memory().items() if used > HEAVY_MB * MB)
    assert rig.share_of_plan("Seq-Seq-Seq") <= 1.15
    rig.change("Seq(read)-Seq(find,write)")
    rig.change("Seq-Seq-Par*3")
    assert loaded()[True] == 1, "regrouped with light stages, it is not loaded again"
    assert rig.share_of_plan("Seq-Seq-Par*3") <= 1.15
    os.kill(heavy, signal.SIGKILL)
    rig.run_until(lambda: loaded()[True] >= 2 and len(rig.memory()) >= 5)
    seen = len(rig.delivered)
    rig.run_until(lambda: len(rig.delivered) > seen + 50)
    assert [out.serials[0] for out in rig.delivered if out.error is None] == list(range(len(rig.delivered)))
