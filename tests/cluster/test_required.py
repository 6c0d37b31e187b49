"""Required plugins: no pod starts without its plugin, and each starts as soon as the plugin is there again.

The annotation is for the validator of both runtimes. The policy is a file of the engine's node.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.cluster.machine import Cluster
from tests.cluster.placement import SPACE
from tests.cluster.pods import NODES, POD_TIMEOUT_S, apply, pod, read, wait_ready, wait_rolled_out
from tests.support.waiting import wait_for

PLUGIN = "ulimit-adjuster"
DAEMON_SET = f"daemonset/nri-plugin-{PLUGIN}"
SELECTOR = f"app.kubernetes.io/name=nri-plugin-{PLUGIN}"
LIMITS = {"ulimits.noderesource.dev/container.main": "[{type: NOFILE, soft: 1234, hard: 2345}]"}
REQUIRED = {"required-plugins.noderesource.dev/container.main": f"[{PLUGIN}]"}
POLICY = f'["10-{PLUGIN}"]\\nrequired = {{ exempt_namespaces = ["kube-system"] }}\\n'
#: The maximum number of pods that are created during a rollout. More would only make a slow node slower.
MAX_PODS = 12
_PAUSE_S = 5.0


class Case(NamedTuple):
    """Where pods run, the annotations that they have, and whether the node's policy requires the plugin."""

    node: str
    annotations: dict[str, str]
    policy: bool


CASES = {
    "engine-annotation": Case("n1", LIMITS | REQUIRED, False),
    "containerd-annotation": Case("n2", LIMITS | REQUIRED, False),
    "engine-policy": Case("n1", LIMITS, True),
}


@pytest.fixture(scope="module")
def plugin(cluster: Cluster, images: None) -> Iterator[None]:
    """The plugin on all nodes."""
    settings = ("--set", f"plugin={PLUGIN},health.enabled=true,nri.plugin.index=10")
    try:
        cluster.helm("install", *SPACE, PLUGIN, "deploy/helm/nri-plugin", *settings)
        wait_rolled_out(cluster, f"nri-plugin-{PLUGIN}")
        yield
    finally:
        cluster.helm("uninstall", *SPACE, PLUGIN, "--ignore-not-found", "--wait")


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest, cluster: Cluster, plugin: None) -> Iterator[Case]:
    """A way to require the plugin."""
    case: Case = request.param
    if not case.policy:
        yield case
        return
    number = int(case.node[1:])
    try:
        cluster.run(number, f"printf '{POLICY}' > /etc/nri/policy.toml")
        report = f"{sys.executable} -m nri why --policies"
        wait_for(lambda: PLUGIN in cluster.run(number, report), "the policy is in force", POD_TIMEOUT_S)
        yield case
    finally:
        cluster.run(number, "rm -f /etc/nri/policy.toml")


def limits(cluster: Cluster, name: str) -> list[str]:
    """The soft and the hard limit of open files of a pod's first process."""
    return read(cluster, name, "grep 'open files' /proc/1/limits").split()[3:5]


def test_pods_created_during_a_rollout_all_start_with_the_plugin(cluster: Cluster, case: Case) -> None:
    names: list[str] = []

    def is_rolled_out() -> bool:
        daemon_set = cluster.get(*SPACE, DAEMON_SET)
        status = daemon_set["status"]
        return bool(
            status["observedGeneration"] == daemon_set["metadata"]["generation"]
            and status.get("updatedNumberScheduled") == status.get("numberReady") == len(NODES)
        )

    try:
        cluster.kubectl("rollout", "restart", *SPACE, DAEMON_SET)
        while not names or (len(names) < MAX_PODS and not is_rolled_out()):
            names.append(f"required-{len(names)}")
            apply(cluster, pod(names[-1], case.node, case.annotations))
            time.sleep(_PAUSE_S)
        wait_rolled_out(cluster, f"nri-plugin-{PLUGIN}")
        wait_ready(cluster, *names)
        assert {name: limits(cluster, name) for name in names} == {name: ["1234", "2345"] for name in names}
    finally:
        cluster.kubectl("delete", "pod", "--ignore-not-found", *names)


def test_a_pod_waits_for_an_absent_plugin_and_its_events_name_it(cluster: Cluster, case: Case) -> None:
    name = "required-waits"

    def set_node_selector(value: str | None) -> None:
        spec = {"nodeSelector": {"nri-test/absent": value}}
        cluster.kubectl("patch", *SPACE, DAEMON_SET, "-p", json.dumps({"spec": {"template": {"spec": spec}}}))

    def events() -> str:
        return cluster.kubectl("get", "events", f"--field-selector=involvedObject.name={name}", "-o", "yaml")

    set_node_selector("true")
    try:
        cluster.kubectl("wait", *SPACE, "--for=delete", "pod", "-l", SELECTOR, f"--timeout={POD_TIMEOUT_S:g}s")
        apply(cluster, pod(name, case.node, case.annotations))
        wait_for(lambda: PLUGIN in events(), events, POD_TIMEOUT_S)
        (status,) = cluster.get("pod", name)["status"].get("containerStatuses", [{}])
        assert "running" not in status.get("state", {})
    finally:
        set_node_selector(None)
    wait_rolled_out(cluster, f"nri-plugin-{PLUGIN}")
    try:
        wait_ready(cluster, name)
        assert limits(cluster, name) == ["1234", "2345"]
    finally:
        cluster.kubectl("delete", "pod", "--ignore-not-found", name)
