"""Manifests of pods as plain dictionaries, in Kubernetes' own words.

Rules: images are local and never pulled; pods end fast; what a test cares about it gives itself. Next: the tests.
"""

from __future__ import annotations

from typing import Any

from tools.runtimes.images import BUSYBOX

Json = dict[str, Any]
#: Ends at once when it is told to: PID 1 has no default actions for signals, but a handler of its own works.
UNTIL_TERM = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


def container(name: str = "main", script: str = UNTIL_TERM, **fields: Any) -> Json:
    """A container that runs a script with busybox's shell. `fields` as in Kubernetes' Container."""
    return {
        "name": name,
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", script],
        **fields,
    }


def pod(name: str, *containers: Json, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    """A pod of these containers, or one that waits for its end. `spec` as in Kubernetes' PodSpec."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}, "annotations": annotations or {}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": list(containers) or [container()], **spec},
    }


def probe(script: str, **fields: Any) -> Json:
    """A probe that runs a script each second and believes its first answer. `fields` as in Kubernetes' Probe."""
    return {"exec": {"command": ["/bin/sh", "-c", script]}, "periodSeconds": 1, "failureThreshold": 1, **fields}
