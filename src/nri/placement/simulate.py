"""Simulate placement: containers of manifests on a described machine, with the policy of a custom resource."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from nri.config import Source, parse_text, read, read_file
from nri.config.complaint import WrongValue
from nri.config.layers import value_error
from nri.errors import ConfigError
from nri.host.topology import Topology
from nri.kube.manifest import Workload
from nri.placement import masks
from nri.placement.choices import Choices
from nri.placement.containers import Container, NoPlace, container_of
from nri.placement.ignored_keys import ignored_annotations, ignored_keys
from nri.placement.machine import Machine
from nri.placement.policy import Devices, Policy
from nri.placement.registry import DEFAULT_POLICY, POLICIES, RESOURCE_KINDS, PolicyRow

_NODE = re.compile("/sys/devices/system/node/node([0-9]{1,5})")
_CACHE = re.compile("/sys/devices/system/cpu/cpu([0-9]{1,5})/cache/index([0-9]{1,2})")


class Simulation(NamedTuple):
    """The outcome of a simulation.

    Attributes:
        containers: all containers by id.
        refused: the reasons by id of the containers that were refused.
    """

    policy: Policy
    containers: dict[str, Container]
    refused: dict[str, str]


def simulate(
    topology: Topology, resource: Source, workloads: Iterable[Workload], note: Callable[[str], None]
) -> Simulation:
    """Place the containers of manifests one by one.

    Args:
        resource: the custom resource of a policy, as `read_resource` returns it.
        note: called for each key and annotation that has no effect.

    Raises:
        ConfigError: the resource is not a policy, or its options do not fit the machine.
    """
    row = _row_of(resource)
    policy = policy_of(row, Machine.of(topology), resource)
    for complaint in ignored_keys(policy.options, len(topology.online)):
        note(str(value_error(type(policy.options), resource, complaint)))
    simulation = Simulation(policy, {}, {})
    memory_bytes = total_memory_bytes(topology)
    for workload in workloads:
        for cri_container in workload.containers:
            container = container_of(workload.pod, cri_container, memory_bytes)
            simulation.containers[container.id] = container
            try:
                policy.create(container)
            except NoPlace as error:
                simulation.refused[container.id] = error.reason
            policy.scheduling(container)
            for warning in ignored_annotations(container, policy.annotations, policy.ignored_annotations):
                note(f"{container}: {warning}")
    return simulation


def total_memory_bytes(topology: Topology) -> int:
    """The total memory of a machine's nodes."""
    return sum(node.memory_bytes for node in topology.nodes.values())


def read_resource(path: str) -> Source:
    """Read the custom resource in a file. Without a path, return the sample of the default policy."""
    sample = {"kind": DEFAULT_POLICY.resource_kind, "spec": DEFAULT_POLICY.sample}
    return read_file(path) if path else Source("", json.dumps(sample), "json")


def _row_of(resource: Source) -> PolicyRow:
    """The policy of a custom resource. Raises ConfigError if the resource is not a policy."""
    tree: Any = parse_text(resource)
    kind = tree.get("kind") if isinstance(tree, dict) else None
    row = next((row for row in POLICIES.values() if row.resource_kind == kind), None)
    if row is None:
        reason = "kind is missing" if kind is None else f"kind: {json.dumps(kind)} is not a policy"
        step = "and put these keys below spec" if kind is None and isinstance(tree, dict) else "with a spec"
        raise ConfigError(resource.name, "", f"{reason}; write kind: {RESOURCE_KINDS}, {step}")
    if "spec" not in tree:
        raise ConfigError(resource.name, "", "spec is missing; put the keys of the policy below spec")
    return row


def policy_of(row: PolicyRow, machine: Machine, source: Source, choices: Choices = Choices.DEFAULT) -> Policy:
    """Make a policy for a described machine from a configuration or a custom resource.

    Raises ConfigError if the options are invalid or do not fit the machine.
    """
    policy_type = row.load()
    options: Any = read(policy_type.options_type, [source])
    try:
        return policy_type(machine, options, choices, devices=_DescribedDevices(machine))
    except WrongValue as error:
        raise value_error(policy_type.options_type, source, error) from error


class _DescribedDevices(Devices):
    """Memory nodes and caches as devices. A described machine has no other devices."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def cpus_near(self, path: str) -> list[int]:
        """The mask of the CPUs near a memory node or a cache; `path` is in /sys."""
        if node := _NODE.fullmatch(path):
            return [self._machine.nodes.get(int(node[1]), 0)]
        if cache := _CACHE.fullmatch(path):
            cpu = self._machine.topology.cpus.get(int(cache[1]))
            caches, index = cpu.caches if cpu is not None else (), int(cache[2])
            return [masks.of(cache.cpus) for cache in caches[index : index + 1]]
        return []
