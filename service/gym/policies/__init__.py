"""Policies from other systems' published rules, by name, and those of users' files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from service.gym.policies.dynamo import Dynamo, DynamoScaled
from service.gym.policies.flink import Flink, FlinkScaled
from service.gym.policies.hpa import Hpa, HpaScaled
from service.gym.policies.keda import Keda, KedaScaled
from service.gym.policies.port import Given, Policy

MakePolicy = Callable[[Given], Policy]

PORTS: Mapping[str, MakePolicy] = {
    "hpa": Hpa,
    "hpa-scaled": HpaScaled,
    "keda": Keda,
    "keda-scaled": KedaScaled,
    "flink": Flink,
    "flink-scaled": FlinkScaled,
    "dynamo": Dynamo,
    "dynamo-scaled": DynamoScaled,
}
"""As published, and with their times scaled to loads that change within seconds."""
