"""Render a Helm chart, hold each object against the schemas of Kubernetes, and print them with what is wrong, as JSON:
``python render_chart.py CHART VALUES``. It runs in an environment of its own (``make setup-kube``)."""

import json
import sys

import kubernetes_validate
import yaml
from helm_python import Chart

KUBERNETES = "1.29.0"
WHOLE, TEXT, YES = {"type": "integer", "minimum": 0}, {"type": "string"}, {"type": "boolean"}
LIST, OBJECT = {"type": "array"}, {"type": "object"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def fields(needed, **known):
    """Return the schema of an object that has these fields and no others."""
    return {"type": "object", "properties": known, "required": needed, "additionalProperties": False}


GROUP = {"rayStartParams": TEXTS, "template": OBJECT}
SCALER = fields(
    [],
    idleTimeoutSeconds=WHOLE,
    upscalingMode={"enum": ["Default", "Aggressive", "Conservative"]},
    image=TEXT, imagePullPolicy=TEXT, env=LIST, envFrom=LIST, volumeMounts=LIST,
    resources=OBJECT, securityContext=OBJECT,
)  # fmt: skip
WORKERS = fields(
    ["groupName", "minReplicas", "maxReplicas", *GROUP],
    groupName=TEXT, replicas=WHOLE, minReplicas=WHOLE, maxReplicas=WHOLE, **GROUP,
)  # fmt: skip
RAY_CLUSTER = fields(
    ["headGroupSpec"],
    rayVersion=TEXT,
    enableInTreeAutoscaling=YES,
    autoscalerOptions=SCALER,
    headGroupSpec=fields([*GROUP], serviceType=TEXT, **GROUP),
    workerGroupSpecs={"type": "array", "items": WORKERS},
)
"""Fields of ``RayClusterSpec`` (KubeRay's API ray.io/v1) that the chart may use; templates are those of pods."""


def plain(thing):
    """Return what the schemas know: an object of KubeRay as the pods that it makes."""
    if thing["kind"] != "RayCluster":
        return [thing]
    kubernetes_validate.utils.jsonschema.validate(thing["spec"], RAY_CLUSTER)
    spec = thing["spec"]
    templates = [each["template"] for each in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]
    return [{"apiVersion": "v1", "kind": "Pod", **each} for each in templates]


def main():
    rendered = Chart.load(sys.argv[1]).render(json.loads(sys.argv[2]), name="demo", namespace="streams")
    found = [each for text in rendered.values() for each in yaml.safe_load_all(text) if each]
    wrong = []
    for thing in found:
        try:
            for each in plain(thing):
                kubernetes_validate.validate(each, KUBERNETES, strict=True)
        except Exception as error:
            wrong.append(f"{thing['kind']} {thing['metadata']['name']}: {error}")
    print(json.dumps({"objects": found, "wrong": wrong}))


if __name__ == "__main__":
    main()
