"""Tune the rules of other systems on the training part: ``python -m lab.gym.tune [RULE …]``.

Each setting of a grid is played in both forms, for twenty minutes on some pairs of the training part. The best setting
is the one with which the objective holds on most of these pairs; among equals, the one with the lowest cost over all of
them. ``lab.gym.policies.TUNED`` contains the result; the test part is not used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from statistics import fmean
from typing import Any

from lab.gym.player import play_run
from lab.gym.policies.conttune import ContTune, ContTuneSettings
from lab.gym.policies.dynamo import Dynamo, DynamoLoad, DynamoLoadSettings, DynamoSettings
from lab.gym.policies.flink import Flink, FlinkSettings
from lab.gym.policies.forms import apart, merged
from lab.gym.policies.horizontal import HorizontalSettings
from lab.gym.policies.hpa import Hpa, HpaSettings
from lab.gym.policies.inferline import InferLine, InferLineSettings
from lab.gym.policies.keda import Keda, KedaSettings
from lab.gym.policies.ray_data import RayData, RayDataSettings
from lab.gym.policies.ray_serve import RayServe, RayServeSettings
from lab.gym.policies.square_root import SquareRoot, SquareRootSettings
from lab.gym.policies.xenna import Xenna, XennaSettings
from lab.gym.score import Score, score_of
from lab.gym.suite import SUITE

PAIRS = ("person/self_similar", "wide/crowds", "accel/steps", "bimodal/waves")
TUNED_S = 1200.0
FORMS = {"apart": apart, "merged": merged}

_PATIENT, _QUICK = HorizontalSettings(sync_s=5, stabilization_s=60), HorizontalSettings(sync_s=1, stabilization_s=20)
GRIDS: Mapping[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "hpa": (Hpa, [HpaSettings(target, rule) for target, rule in product((0.5, 0.65, 0.8), (_PATIENT, _QUICK))]),
    "keda": (Keda, [KedaSettings(items, rule) for items, rule in product((1, 2, 4), (_PATIENT, _QUICK))]),
    "flink": (
        Flink,
        [
            FlinkSettings(window_s, stable_s, 60.0, target)
            for (window_s, stable_s), target in product(((15.0, 5.0), (60.0, 20.0)), (0.5, 0.6, 0.7))
        ],
    ),
    "ray-serve": (
        RayServe,
        [
            RayServeSettings(ongoing, up_s, down_s, look_back_s=up_s, metrics_interval_s=1.0)
            for ongoing, (up_s, down_s) in product((0.6, 0.8, 1.0), ((2.0, 20.0), (5.0, 60.0)))
        ],
    ),
    "ray-data": (
        RayData,
        [
            RayDataSettings(up, down, down_delay_s=delay_s)
            for (up, down), delay_s in product(((1.2, 0.5), (0.9, 0.4), (0.7, 0.3)), (10.0, 60.0))
        ],
    ),
    "dynamo": (Dynamo, [DynamoSettings(interval_s) for interval_s in (3.0, 10.0, 30.0, 60.0)]),
    "dynamo-load": (
        DynamoLoad,
        [DynamoLoadSettings(every_s, part) for every_s, part in product((2.0, 5.0), (0.4, 0.6, 0.8))],
    ),
    "xenna": (Xenna, [XennaSettings(*seconds) for seconds in ((5, 15), (15, 30), (30, 60), (60, 60))]),
    "conttune": (
        ContTune,
        [
            ContTuneSettings(interval_s, most_used=most, least_used=most - 0.2)
            for interval_s, most in product((5.0, 20.0), (0.5, 0.65, 0.8))
        ],
    ),
    "inferline": (
        InferLine,
        [InferLineSettings(plan_s, longest_s) for plan_s, longest_s in product((30.0, 60.0, 120.0), (15.0, 60.0))],
    ),
    "square-root": (
        SquareRoot,
        [SquareRootSettings(beta, hold_s=hold_s) for beta, hold_s in product((0.5, 0.8, 1.2), (3.0, 10.0))],
    ),
}


@dataclass(frozen=True, slots=True)
class Tried:
    """A setting of a rule, in a form."""

    rule: str
    form: str
    number: int

    @property
    def settings(self) -> Any:
        return GRIDS[self.rule][1][self.number]


def scores_of(tried: Tried) -> list[Score]:
    """Play a setting on each pair."""
    make = FORMS[tried.form](partial(GRIDS[tried.rule][0], settings=tried.settings))
    pairs = [replace(pair, duration_s=TUNED_S) for pair in SUITE if pair.name in PAIRS]
    return [score_of(play_run(pair.play(), make)) for pair in pairs]


def main(rules: Sequence[str]) -> None:
    """Print each setting with its scores, the best ones last for each rule."""
    for rule in rules or list(GRIDS):
        tried = [Tried(rule, form, number) for form in FORMS for number in range(len(GRIDS[rule][1]))]
        with ProcessPoolExecutor() as processes:
            rows = zip(processes.map(scores_of, tried), tried, strict=True)
            ranked = [(sum(s.holds for s in scores), -fmean(s.cost for s in scores), each) for scores, each in rows]
        for holds, cost, each in sorted(ranked, key=lambda row: row[:2]):
            print(f"{rule:12} {each.form:7} holds {holds}/{len(PAIRS)} cost {-cost:6.2f} {each.settings}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
