"""`nri placement`: what the placement policies would decide. Next: `nri.policies.placement`, which decides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from nri.policies.placement.balloons.policy import Balloons
    from nri.policies.placement.topology_aware.policy import TopologyAware

_KINDS = {"TopologyAwarePolicy": "topology-aware", "BalloonsPolicy": "balloons"}
_COLUMNS = [
    Column("CONTAINER", "container"),
    Column("CPUS", "cpus"),
    Column("MEMORY", "mems"),
    Column("SHARES", "shares"),
    Column("REFUSED", "refused"),
]


@click.group(cls=VerbGroup, examples=["nri placement simulate --machine / --policy policy.yaml --pods pods.yaml"])
def placement() -> None:
    """Place containers on CPUs and memory nodes, on paper."""


@placement.command(
    cls=Verb,
    examples=[
        "nri placement simulate --policy policy.yaml --pods pods.yaml",
        "nri placement simulate --machine snapshot/ --policy policy.yaml --pods pods.yaml -o json",
    ],
)
@click.option("--machine", metavar="DIR", default="/", help="Where the machine's root is, or a copy of its /sys.")
@click.option("--policy", metavar="FILE", required=True, help="A TopologyAwarePolicy or BalloonsPolicy resource.")
@click.option("--pods", metavar="FILE", required=True, help="Manifests of pods, created in their order.")
@click.pass_obj
def simulate(settings: Settings, machine: str, policy: str, pods: str) -> int:
    """Show where the containers of manifests would run. Needs neither root nor a runtime.

    The machine is this one, or any whose /sys was copied. Ends with 1 if a container is refused.
    """
    from nri.config import read_file
    from nri.host import Root, read_topology
    from nri.kube.manifest import read_manifests
    from nri.policies.placement.containers import NoPlace, Pins, container_of

    topology = read_topology(Root(machine))
    if not topology.cpus:
        raise Failure(f"{machine}: there are no CPUs in sys/devices/system/cpu")
    decider = _policy(policy, topology)
    memory = sum(node.memory_bytes for node in topology.nodes.values())
    pins: dict[str, Pins] = {}
    names: dict[str, str] = {}
    refused: dict[str, str] = {}
    for workload in read_manifests(read_file(pods)):
        for each in workload.containers:
            container = container_of(workload.pod, each, memory)
            names[container.id] = str(container)
            try:
                changes = decider.create(container)
            except NoPlace as error:
                refused[container.id] = error.reason
                continue
            for name, changed in changes.items():
                pins[name] = pins.get(name, Pins()) | changed
    rows = []
    for id_, name in names.items():
        pinned = {key: value for key, value in pins.get(id_, Pins())._asdict().items() if value is not None}
        rows.append({"container": name, **pinned, "refused": refused.get(id_, "")})
    Output(settings).table(_COLUMNS, rows)
    return FAILED if refused else 0


def _policy(path: str, topology: Any) -> TopologyAware | Balloons:
    """The policy of a resource in a file. Failure if it is none."""
    from nri.config import parse_text, read_file
    from nri.policies.placement.choices import Choices
    from nri.policies.placement.machine import Machine
    from nri.testing.placement.machines import make_policy

    tree = parse_text(read_file(path))
    kind = tree.get("kind") if isinstance(tree, dict) else None
    if kind not in _KINDS or not isinstance(tree.get("spec"), dict):
        raise Failure(f"{path}: {json.dumps(kind)} is no kind of policy; {' or '.join(_KINDS)}, with a spec")
    try:
        return make_policy(_KINDS[kind], Machine.of(topology), tree["spec"], Choices.DEFAULT)
    except ValueError as error:
        raise Failure(f"{path}: {error}") from error


command = placement
