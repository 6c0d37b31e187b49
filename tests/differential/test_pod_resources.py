"""Sums over a pod, its QoS class and its OOM scores equal the results of Kubernetes' functions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nri.agent.pods.manifest import kube_class
from nri.config import Source
from nri.kube import kubelet, quantity
from nri.kube.document import Document
from nri.kube.manifest import pod_resources as read_resources
from nri.kube.pod_resources import pod_limit, pod_total
from tests.peers.build import peer

Json = dict[str, Any]
NODE_BYTES = 256 << 20
pytestmark = pytest.mark.timeout(900)  # the first test may have to build the program

_NAMES = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "kubernetes.io/batch-cpu")
_SMALL = ("0", "1n", "1m", "100m", "1", "1.5", "2", "3k", "7e3", "64Mi", "100M")
#: Quantities that no product with 1000 makes too large for the kubelet's arithmetic.
_MODEST = st.sampled_from(_SMALL)
_ANY = st.sampled_from((*_SMALL, "1Gi", "20Gi", "9223372036854775807"))


@st.composite
def resource_parts(draw: st.DrawFn, quantities: st.SearchStrategy[str]) -> Json:
    """Requests and limits as an API server has them: a limit without a request is one, and no request exceeds it."""
    limits = draw(st.dictionaries(st.sampled_from(_NAMES), quantities, max_size=3))
    requests = {**limits, **draw(st.dictionaries(st.sampled_from(_NAMES), quantities, max_size=3))}
    for name, limit in limits.items():
        if quantity.parse(requests[name]) > quantity.parse(limit):
            requests[name] = limit
    empty_parts_stay = draw(st.booleans())
    parts = {"requests": requests, "limits": limits}
    return {key: value for key, value in parts.items() if value or empty_parts_stay}


@st.composite
def pods(draw: st.DrawFn, quantities: st.SearchStrategy[str] = _ANY) -> Json:
    """A pod of one to three containers and up to four that initialize it; some with resources of the pod itself."""
    containers = [
        {"name": f"c{number}", "resources": draw(resource_parts(quantities))}
        for number in range(draw(st.integers(1, 3)))
    ]
    initial: list[Json] = [
        {"name": f"i{number}", "resources": draw(resource_parts(quantities))}
        for number in range(draw(st.integers(0, 4)))
    ]
    for container in initial:
        if draw(st.booleans()):
            container["restartPolicy"] = "Always"
    spec: Json = {"containers": containers, "initContainers": initial}
    if draw(st.booleans()):
        spec["overhead"] = draw(st.dictionaries(st.sampled_from(_NAMES), quantities, max_size=3))
    if draw(st.booleans()):
        spec["resources"] = draw(_pod_level(spec, quantities))
    if draw(st.integers(0, 9)) == 0:
        spec |= {"priorityClassName": "system-node-critical", "priority": 2_000_001_000}
    return {"metadata": {"name": "p", "namespace": "n"}, "spec": spec}


@st.composite
def _pod_level(draw: st.DrawFn, spec: Json, quantities: st.SearchStrategy[str]) -> Json:
    """Resources of the pod itself, as an API server takes them: requests at least those of the containers."""
    parts = draw(resource_parts(quantities))
    least = pod_total(spec, "requests", overhead=False)
    memory = parts.get("requests", {}).get("memory")
    if memory is not None and quantity.parse(memory) < least.get("memory", 0):
        del parts["requests"]["memory"]
        parts.get("limits", {}).pop("memory", None)
    return parts


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[subprocess.Popen[str]]:
    """The program that answers for Kubernetes."""
    command = [str(peer("podresources")), f"-memory={NODE_BYTES}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def _ask(process: subprocess.Popen[str], pod: Json) -> Json:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{json.dumps(pod)}\n")
    process.stdin.flush()
    answer: Json = json.loads(process.stdout.readline())
    return answer


def _exact(amounts: Json) -> dict[str, Fraction]:
    return {name: Fraction(text) for name, text in amounts.items()}


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pod=pods())
def test_sums_of_requests_and_limits_equal_those_of_kubernetes(kubernetes: subprocess.Popen[str], pod: Json) -> None:
    answer, spec = _ask(kubernetes, pod), pod["spec"]
    assert pod_total(spec, "requests") == _exact(answer["requests"])
    assert pod_total(spec, "limits") == _exact(answer["limits"])
    assert pod_total(spec, "requests", overhead=False) == _exact(answer["requests_without_overhead"])
    assert pod_total(spec, "limits", overhead=False) == _exact(answer["limits_without_overhead"])


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pod=pods())
def test_the_pods_cgroup_limit_equals_the_kubelets(kubernetes: subprocess.Popen[str], pod: Json) -> None:
    answer = _exact(_ask(kubernetes, pod)["cgroup_limits"])
    assert {name: pod_limit(pod["spec"], name) for name in ("cpu", "memory")} == {"cpu": 0, "memory": 0, **answer}


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pod=pods(_MODEST))
def test_qos_class_and_oom_scores_of_a_pod_equal_the_kubelets(kubernetes: subprocess.Popen[str], pod: Json) -> None:
    resources = read_resources(Document(Source("pod.json", json.dumps(pod)), pod), pod["spec"])
    defaulted = json.loads(json.dumps(pod))
    if resources.pod is not None:  # the API server's defaults for the pod itself, which the kubelet is given
        parts: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
        for key, value in resources.pod.items():
            part, _, name = key.partition(".")
            parts[part][name] = f"{int(value * 10**9)}n"
        defaulted["spec"]["resources"] = parts
    answer = _ask(kubernetes, defaulted)
    assert kubelet.qos_class(resources) == kube_class(defaulted) == answer["class"]
    assert [share.oom_score for share in kubelet.shares(resources, NODE_BYTES)] == answer["oom_scores"]
