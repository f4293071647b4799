"""Provide the published rules of other systems by name, each in two forms, and read policies of users' files.

A tuned variant is the same class with other settings: ``partial(Hpa, settings=HpaSettings(target=0.6))``.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.gym.policies.conttune import ContTune
from lab.gym.policies.dynamo import Dynamo, DynamoLoad
from lab.gym.policies.flink import Flink
from lab.gym.policies.forms import MakePolicy, apart, merged
from lab.gym.policies.hpa import Hpa
from lab.gym.policies.inferline import InferLine
from lab.gym.policies.keda import Keda
from lab.gym.policies.ray_data import RayData
from lab.gym.policies.ray_serve import RayServe
from lab.gym.policies.square_root import SquareRoot
from lab.gym.policies.xenna import Xenna

_RULES: Mapping[str, MakePolicy] = {
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

TUNED: Mapping[str, MakePolicy] = {}
"""The same rules with settings that were tuned on the training part of the suite, as ``hpa-tuned``."""

__all__ = ["PORTS", "TUNED", "MakePolicy"]
