"""An app that misbehaves on request, for tests of the ray pool."""

import ctypes
import os
import time

import numpy as np

from apps.contract import App, Options
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind


class ProbeOptions(Options):
    refuse: bool = False
    crash: bool = False
    setup_s: float = 0.0


class Probe(App):
    name = "ray-probe"
    stages = (Stage("double"), Stage("count", StageKind.STATEFUL), Stage("misbehave"))
    options_model = ProbeOptions
    options: ProbeOptions

    def setup(self):
        time.sleep(self.options.setup_s)
        if self.options.refuse:
            raise RecomposeError("the probe was told to refuse its setup")
        if self.options.crash:
            os._exit(7)

    def double(self, value):
        return value * 2

    def count(self, value, state):
        state = np.zeros(100_000) if state is None else state
        state[0] += 1
        return [value, int(state[0])], state

    def misbehave(self, how):
        if isinstance(how, np.ndarray):
            how += 1  # in place: what a stage gets is its own, and writable
            return {"array": how, "aligned": bool(how.flags.aligned)}
        if how == "raise":
            raise ValueError("told to raise")
        if how == "unpicklable":
            return lambda: None
        if how == "exit":
            os._exit(3)
        if how == "keep the interpreter":
            ctypes.PyDLL(None).sleep(60)
        if how == "environment":
            return dict(os.environ)
        if isinstance(how, float):
            time.sleep(how)
        return how
