"""Provide the published rules of other systems by name, each in two forms, and read policies of users' files.

A tuned variant is the same class with other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lab.gym.policies.conttune import ContTune, ContTuneSettings
from lab.gym.policies.dynamo import Dynamo, DynamoLoad, DynamoLoadSettings, DynamoSettings
from lab.gym.policies.flink import Flink, FlinkSettings
from lab.gym.policies.forms import MakePolicy, apart, merged
from lab.gym.policies.horizontal import HorizontalSettings
from lab.gym.policies.hpa import Hpa, HpaSettings
from lab.gym.policies.inferline import InferLine, InferLineSettings
from lab.gym.policies.keda import Keda, KedaSettings
from lab.gym.policies.port import Policy
from lab.gym.policies.ray_data import RayData, RayDataSettings
from lab.gym.policies.ray_serve import RayServe, RayServeSettings
from lab.gym.policies.square_root import SquareRoot, SquareRootSettings
from lab.gym.policies.xenna import Xenna, XennaSettings

_RULES: Mapping[str, Callable[..., Policy]] = {
    "hpa": Hpa,
    "keda": Keda,
    "flink": Flink,
    "ray-serve": RayServe,
    "ray-data": RayData,
    "dynamo": Dynamo,
    "dynamo-load": DynamoLoad,
    "xenna": Xenna,
    "conttune": ContTune,
    "inferline": InferLine,
    "square-root": SquareRoot,
}

PORTS: Mapping[str, MakePolicy] = {
    **{name: apart(make) for name, make in _RULES.items()},
    **{f"{name}-merged": merged(make) for name, make in _RULES.items()},
}
"""Every rule with its published settings, with a group for each stage and with neighbours merged."""

_AT_EACH_SECOND = HorizontalSettings(sync_s=1.0, stabilization_s=20.0)
_SETTINGS: Mapping[str, Any] = {
    "hpa": HpaSettings(0.8, _AT_EACH_SECOND),
    "keda": KedaSettings(1, _AT_EACH_SECOND),
    "flink": FlinkSettings(15.0, 5.0, 60.0, 0.6),
    "ray-serve": RayServeSettings(0.6, 5.0, 60.0, look_back_s=5.0, metrics_interval_s=1.0),
    "ray-data": RayDataSettings(0.7, 0.3, down_delay_s=10.0),
    "dynamo": DynamoSettings(10.0),
    "dynamo-load": DynamoLoadSettings(5.0, 0.4),
    "xenna": XennaSettings(5.0, 15.0),
    "conttune": ContTuneSettings(5.0, most_used=0.8, least_used=0.6),
    "inferline": InferLineSettings(120.0, 60.0),
    "square-root": SquareRootSettings(0.5, hold_s=10.0),
}
TUNED: Mapping[str, MakePolicy] = {
    f"{name}-tuned": apart(partial(_RULES[name], settings=settings)) for name, settings in _SETTINGS.items()
}
"""The same rules with the best of the settings that ``lab.gym.tune`` tries on the training part, of plant 1 and split
1; for every rule the best form was a group for each stage."""

__all__ = ["PORTS", "TUNED", "MakePolicy"]
