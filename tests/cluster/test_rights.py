"""Service accounts: a program names each right that its role lacks, and it has no right besides its roles.

Rights that fail independently of each other are removed together, because a program on a node starts slowly. The test
compares them with the roles, so each right of a role is removed once.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tests.cluster.agent import SELECTOR as AGENT
from tests.cluster.agent import THRESHOLD, agent_installed, batch, slo
from tests.cluster.machine import Cluster
from tests.cluster.placement import SPACE, TOPOLOGIES, installed
from tests.cluster.pods import POD_TIMEOUT_S, Json, apply, pod_on, running, wait_rolled_out
from tests.cluster.test_dra import SELECTOR as DRA
from tests.cluster.test_dra import manual_objects
from tests.support.waiting import wait_for

#: The pod of this node is started again for each case.
NODE = "n2"


class Right(NamedTuple):
    """What a role allows."""

    group: str
    resource: str
    verb: str

    @property
    def refusal(self) -> str:
        """The API server's text for a request without the right."""
        return f'cannot {self.verb} resource "{self.resource}" in API group "{self.group}"'


class Case(NamedTuple):
    """A role of an account, and the rights that are removed together."""

    role: str
    verb: str
    resources: AbstractSet[str]


def resources(*names: str) -> AbstractSet[str]:
    """The resources of a case."""
    return frozenset(names)


SLICES = resources("resourceslices")
AGENT_CASES = (
    Case("nri-agent", "list", resources("nodes", "pods", "nodeslos", "noderesourcetopologies", "configmaps")),
    Case("nri-agent", "watch", resources("nodes", "pods", "nodeslos", "noderesourcetopologies", "configmaps")),
    Case("nri-agent-evict", "create", resources("pods/eviction")),
)
PLACEMENT = {"topology-aware": "topologyawarepolicies", "balloons": "balloonspolicies"}
DRA_CASES = (
    Case("nri-dra-cpu", "list", SLICES),
    Case("nri-dra-cpu", "watch", SLICES),
    Case("nri-dra-cpu", "patch", SLICES),
    Case("nri-dra-cpu", "create", SLICES),
    Case("nri-dra-cpu", "get", resources("nodes")),
    Case("nri-dra-cpu", "get", resources("resourceclaims")),
)


def placement_cases(plugin: str) -> tuple[Case, ...]:
    """The cases of a placement plugin's role."""
    role, policies = f"nri-plugin-{plugin}", PLACEMENT[plugin]
    return (
        Case(role, "list", resources("nodes", policies)),
        Case(role, "watch", resources("nodes", policies)),
        Case(role, "patch", resources(f"{policies}/status", "noderesourcetopologies")),
        Case(role, "create", resources("noderesourcetopologies")),
    )


def rights(rules: list[Json]) -> set[Right]:
    """The rights in the rules of a role."""
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def rules(cluster: Cluster, role: str) -> list[Json]:
    """The rules of a role."""
    document = cluster.get("clusterrole", role)["rules"]
    assert isinstance(document, list)
    return document


def without(original: list[Json], case: Case) -> list[Json]:
    """The rules without the rights of a case. Each resource has a rule of its own."""
    changed = []
    for rule in original:
        for resource in rule["resources"]:
            verbs = [verb for verb in rule["verbs"] if verb != case.verb or resource not in case.resources]
            changed.append(copy.deepcopy(rule) | {"resources": [resource], "verbs": verbs})
    return [rule for rule in changed if rule["verbs"]]


@contextmanager
def reduced(cluster: Cluster, case: Case) -> Iterator[set[Right]]:
    """Have the role without the rights of a case while the block runs; yields these rights."""
    original = rules(cluster, case.role)
    reduced = without(original, case)

    def replace(changed: list[Json]) -> None:
        cluster.kubectl("patch", "clusterrole", case.role, "--type=merge", "-p", json.dumps({"rules": changed}))

    replace(reduced)
    try:
        yield rights(original) - rights(reduced)
    finally:
        replace(original)


def restart(cluster: Cluster, selector: str) -> str:
    """Delete the pod of a DaemonSet on the node; returns the name of the next pod."""
    old = pod_on(cluster, selector, NODE)
    cluster.kubectl("delete", "pod", *SPACE, old, "--grace-period=1")

    def names() -> list[str]:
        words = ("pods", *SPACE, "-l", selector, f"--field-selector=spec.nodeName={NODE}")
        return [item["metadata"]["name"] for item in cluster.get(*words)["items"] if item["metadata"]["name"] != old]

    wait_for(lambda: len(names()) == 1, "the next pod", POD_TIMEOUT_S)
    return names()[0]


def log_of(cluster: Cluster, name: str) -> str:
    """The logs of all containers of a pod that have started."""
    words = ("--all-containers", "--ignore-errors", "--tail=-1")
    return cluster.kubectl("logs", *SPACE, name, *words, check=False)


def wait_refused(cluster: Cluster, name: str, refused: AbstractSet[Right]) -> None:
    """Wait until a pod has logged the API server's refusal for each right."""
    assert refused

    def missing() -> list[str]:
        log = log_of(cluster, name)
        return [right.refusal for right in refused if right.refusal not in log]

    wait_for(lambda: not missing(), lambda: f"{missing()}\n{log_of(cluster, name)}", POD_TIMEOUT_S)


def check_cases_are_complete(cluster: Cluster, cases: tuple[Case, ...]) -> None:
    """Check that the cases have all rights of their roles."""
    for role in {case.role for case in cases}:
        left = rules(cluster, role)
        for case in cases:
            if case.role == role:
                left = without(left, case)
        assert not rights(left), role


def check_no_other_rights(cluster: Cluster, account: str, cases: tuple[Case, ...]) -> None:
    """Check that an account can do what its roles allow, and what each account can do."""

    def listed(name: str) -> set[str]:
        words = ("auth", "can-i", "--list", "--no-headers", *SPACE, f"--as=system:serviceaccount:kube-system:{name}")
        groups = ("--as-group=system:serviceaccounts", "--as-group=system:authenticated")
        return {" ".join(line.split()) for line in cluster.kubectl(*words, *groups).splitlines()}

    more = listed(account) - listed("without-roles")
    expected: dict[str, set[str]] = {}
    for role in {case.role for case in cases}:
        for right in rights(rules(cluster, role)):
            expected.setdefault(f"{right.resource}.{right.group}".rstrip("."), set()).add(right.verb)
    actual = {line.split()[0]: set(line.rpartition("[")[2].rstrip("]").split()) for line in more}
    assert actual == expected


def test_the_agent_names_each_right_that_it_lacks_and_has_no_other(cluster: Cluster, images: None, kinds: None) -> None:
    with agent_installed(cluster, "--set", "config.gates.BEMemoryEvict=true"):
        check_cases_are_complete(cluster, AGENT_CASES)
        check_no_other_rights(cluster, "nri-agent", AGENT_CASES)
        assert "forbidden" not in log_of(cluster, restart(cluster, AGENT))
        for case in AGENT_CASES:
            with reduced(cluster, case) as refused:
                name = restart(cluster, AGENT)
                if case.verb != "create":
                    wait_refused(cluster, name, refused)
                    continue
                threshold = THRESHOLD | {"memoryEvictThresholdPercent": 1, "memoryEvictLowerPercent": 0}
                with running(cluster, batch("kept", NODE)):
                    apply(cluster, slo(NODE, resourceUsedThresholdWithBE=threshold))
                    wait_refused(cluster, name, refused)


@pytest.mark.parametrize("plugin", PLACEMENT)
def test_a_placement_plugin_names_each_right_that_it_lacks_and_has_no_other(
    cluster: Cluster, images: None, kinds: None, plugin: str
) -> None:
    selector, cases = f"app.kubernetes.io/name=nri-plugin-{plugin}", placement_cases(plugin)
    with installed(cluster, plugin, {"reservedResources": {"cpu": "750m"}}):
        check_cases_are_complete(cluster, cases)
        check_no_other_rights(cluster, f"nri-plugin-{plugin}", cases)
        for case in cases:
            with reduced(cluster, case) as refused:
                cluster.kubectl("delete", TOPOLOGIES, NODE, "--ignore-not-found")
                wait_refused(cluster, restart(cluster, selector), refused)


def test_the_driver_dra_cpu_names_each_right_that_it_lacks_and_has_no_other(cluster: Cluster, images: None) -> None:
    template, manifest = manual_objects(NODE)
    name = manifest["metadata"]["name"]
    try:
        cluster.kubectl("apply", "-k", "deploy/dra-cpu")
        wait_rolled_out(cluster, "nri-dra-cpu")
        check_cases_are_complete(cluster, DRA_CASES)
        check_no_other_rights(cluster, "nri-dra-cpu", DRA_CASES)
        for case in DRA_CASES:
            with reduced(cluster, case) as refused:
                driver = restart(cluster, DRA)
                if "resourceclaims" in case.resources:
                    apply(cluster, template, manifest)
                else:
                    cluster.kubectl("delete", "resourceslice", f"--field-selector=spec.nodeName={NODE}")
                wait_refused(cluster, driver, refused)
        cluster.kubectl("wait", "--for=condition=Ready", "pod", name, f"--timeout={POD_TIMEOUT_S:g}s")
    finally:
        cluster.kubectl("delete", "pod", "--ignore-not-found", name)
        cluster.kubectl("delete", "resourceclaimtemplate", "--ignore-not-found", template["metadata"]["name"])
        cluster.kubectl("delete", "--ignore-not-found", "-k", "deploy/dra-cpu")
