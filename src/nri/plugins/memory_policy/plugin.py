"""`memory-policy`: give containers a NUMA memory policy, by classes of the configuration and by annotations.

The policy is set by NRI, which few runtimes support yet. With `injectMpolset` the program `mpolset` sets the policy and
starts the container's own program. Use a high index, after the plugins that pin CPUs and memory.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from typing import NamedTuple

import nri
from nri.api import cpuset
from nri.api.messages import MpolFlag, MpolMode
from nri.files import read_regular, write_whole
from nri.host import Root, read_topology
from nri.plugins.annotations import by_prefix, check_names
from nri.stub.program.options import Flag
from nri.text import cut, plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

    from nri.host.topology import Topology
    from nri.plugins.annotations import Annotation

DOMAIN = "memory-policy.nri.io"
#: The folder of the program, on the node and in containers.
INJECTED = "/mnt/nri-memory-policy-mpolset"
PROGRAM = "mpolset"
#: Maximum size of the program; a static program has less than a megabyte.
MAX_PROGRAM_BYTES = 16 << 20
#: Modes that take no nodes.
WITHOUT_NODES = ("MPOL_DEFAULT", "MPOL_LOCAL")
#: Keywords for nodes; "" means no nodes.
NODE_KEYWORDS = ("", "all", "allowed-mems", "cpu-packages", "cpu-nodes")
#: Flags that exclude each other. Source: set_mempolicy(2).
EXCLUSIVE_FLAGS = ("MPOL_F_STATIC_NODES", "MPOL_F_RELATIVE_NODES")
#: A flag, and the modes that accept it. Source: set_mempolicy(2).
BALANCING, BALANCED = "MPOL_F_NUMA_BALANCING", ("MPOL_BIND", "MPOL_PREFERRED_MANY")
NODES_HELP = "all, allowed-mems, cpu-packages, cpu-nodes, max-dist:20, or a list such as 0-1"


class Policy(NamedTuple):
    """A memory policy of an annotation or a class."""

    mode: str
    nodes: str = ""
    flags: tuple[str, ...] = ()


class PolicyKeys:
    """The policy of a class in the configuration.

    Attributes:
        mode: a mode of set_mempolicy, such as MPOL_INTERLEAVE.
        nodes: all, allowed-mems, cpu-packages, cpu-nodes, max-dist:20, or a list such as 0-1.
        flags: flags of set_mempolicy, such as MPOL_F_STATIC_NODES.
    """

    mode: str
    nodes: str = ""
    flags: tuple[str, ...] = ()


class PolicyClass:
    """A named policy of the configuration.

    Attributes:
        name: the name for annotations.
    """

    name: str
    policy: PolicyKeys

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("the name of a class must not be empty")
        check(Policy(self.policy.mode, self.policy.nodes, self.policy.flags))


class MemoryPolicyPlugin(nri.Plugin):
    """Set the NUMA memory policy of containers, by classes and annotations."""

    name = "memory-policy"
    sets = ("linux.memory_policy", "args", "mounts")
    annotations: ClassVar[Mapping[str, str]] = {
        f"class.{DOMAIN}": "name of a class of the configuration; empty: no class",
        f"policy.{DOMAIN}": f"{{mode, nodes, flags}}; nodes: {NODES_HELP}",
    }
    flags: ClassVar[Mapping[str, Flag]] = {
        "host-root": Flag("hostRoot", "DIR", "the node's root folder (default /)"),
        "mpolset": Flag("mpolset", "FILE", "the program to inject (default: next to the plugin, or in PATH)"),
    }

    class Config:
        """Keys of the configuration.

        Attributes:
            injectMpolset: set the policy by a program that then starts the container's program. It is for runtimes that
            cannot set the policy.
        """

        injectMpolset: bool = False
        classes: tuple[PolicyClass, ...] = ()
        hostRoot: str = "/"
        mpolset: str = ""

        def __post_init__(self) -> None:
            check_names([class_.name for class_ in self.classes])

    config: Config
    topology: Topology

    def configure(self) -> None:
        self.topology = read_topology(Root(self.config.hostRoot))
        if self.config.injectMpolset:
            self._install_program()

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        chosen = self._requested_policy(pod, container)
        if chosen is None:
            return None
        annotation, policy = chosen
        cpu = container.linux.resources.cpu
        with annotation.at(""):
            check(policy)
            nodes = resolve(policy.nodes, self.topology, cpuset.parse(cpu.cpus), cpuset.parse(cpu.mems))
            if not nodes and policy.mode not in WITHOUT_NODES:
                raise ValueError(f"nodes must not be empty: {quote(cut(policy.nodes, 40))} selects no existing node")
            adjustment = self._adjustment(policy, cpuset.to_text(nodes), container)
        allowed = cpuset.parse(cpu.mems) or frozenset(self.topology.nodes)
        if not nodes <= allowed:
            words = cpuset.to_text(nodes), cpuset.to_text(allowed)
            self.log.warning("%s: some of the nodes %s are not allowed for the container: %s", annotation.key, *words)
        self.log.info("%s", plain(f"{'|'.join((policy.mode, *policy.flags))} nodes={cpuset.to_text(nodes)}"))
        return adjustment

    def _adjustment(self, policy: Policy, nodes: str, container: nri.Container) -> nri.Adjustment:
        if not self.config.injectMpolset:
            return nri.Adjustment().set_memory_policy(policy.mode, nodes, policy.flags)
        program = [f"{INJECTED}/{PROGRAM}", "--mode", policy.mode, "--nodes", nodes]
        if policy.flags:
            program += ["--flags", ",".join(policy.flags)]
        adjustment = nri.Adjustment().add_mount(INJECTED, INJECTED, "bind", ["bind", "ro"])
        return adjustment.set_args([*program, "--", *container.args])

    def _requested_policy(self, pod: nri.PodSandbox, container: nri.Container) -> tuple[Annotation, Policy] | None:
        """The annotation that applies, and its policy. Returns None without an annotation, or if its value is empty."""
        scope = f"/container.{container.name}"
        annotations = by_prefix(pod, container.name, DOMAIN, "/container.")
        candidates = [annotations.pop(prefix) for prefix in ("policy", "class") if prefix in annotations]
        for stray in annotations.values():
            wrong = stray.refusal("", "unknown annotation", f"write policy.{DOMAIN} or class.{DOMAIN}")
            if not candidates:
                raise wrong
            self.log.warning("%s", wrong)
        candidates = [annotation for annotation in candidates if annotation.key.endswith(scope)] or candidates
        if len(candidates) > 1:
            raise candidates[0].refusal("", f"{candidates[1].key} is set as well", "remove one of the two")
        if not candidates or not candidates[0].text:
            return None
        policy = (
            self._class_policy(candidates[0]) if candidates[0].key.startswith("class") else candidates[0].row(Policy)
        )
        for warning in candidates[0].warnings:
            self.log.warning("%s", warning)
        return None if policy is None else (candidates[0], policy)

    def _class_policy(self, annotation: Annotation) -> Policy:
        for class_ in self.config.classes:
            if class_.name == annotation.text:
                return Policy(class_.policy.mode, class_.policy.nodes, class_.policy.flags)
        names = ", ".join(class_.name for class_ in self.config.classes) or "none"
        raise annotation.refusal("", f"class {quote(annotation.text[:64])} not found", f"existing classes: {names}")

    def _install_program(self) -> None:
        """Copy the program to the folder that containers mount."""
        neighbour = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), PROGRAM)
        source = self.config.mpolset or (neighbour if os.path.exists(neighbour) else shutil.which(PROGRAM) or "")
        if not source:
            text = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{PROGRAM}.c")
            build = f"build it once: cc -O2 -static -o /usr/local/bin/{PROGRAM} {text}"
            raise nri.ConfigError("configuration", "injectMpolset", f"program {PROGRAM} not found", build)
        folder = self.config.hostRoot.rstrip("/") + INJECTED
        target = os.path.join(folder, PROGRAM)
        try:
            os.makedirs(folder, exist_ok=True)
            status = os.lstat(folder)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                reason = f"{folder} is a link, or other users may write to it, and containers would run their programs"
                raise nri.ConfigError("configuration", "injectMpolset", reason, "remove it")
            os.chmod(folder, 0o755)  # noqa: S103 - users of all containers run it
            program = read_regular(source, MAX_PROGRAM_BYTES)
            if not os.path.exists(target) or read_regular(target, MAX_PROGRAM_BYTES) != program:
                write_whole(target, program, 0o755)
        except OSError as error:
            reason = f"cannot copy {source} to {target}: {error.strerror or error}"
            raise nri.ConfigError("configuration", "injectMpolset", reason) from None
        self.log.info("%s is a copy of %s", target, source)


def check(policy: Policy) -> None:
    """Raise ValueError if mode, flags or nodes are invalid. As in builders, the message begins with the key."""
    if policy.mode not in MpolMode.keys():  # noqa: SIM118 - iterating a protobuf enum gives no names
        raise ValueError(f"mode must be one of {', '.join(MpolMode.keys())}, not {quote(cut(policy.mode, 40))}")
    for flag in policy.flags:
        if flag not in MpolFlag.keys():  # noqa: SIM118
            raise ValueError(f"flags must be among {', '.join(MpolFlag.keys())}, not {quote(cut(flag, 40))}")
    if policy.flags and policy.mode == "MPOL_LOCAL":
        raise ValueError("flags must be empty for MPOL_LOCAL")
    if BALANCING in policy.flags and policy.mode not in BALANCED:
        raise ValueError(
            f"flags must not contain {BALANCING} for {policy.mode}: only {' and '.join(BALANCED)} accept it"
        )
    if set(EXCLUSIVE_FLAGS) <= set(policy.flags):
        raise ValueError(f"flags must not contain both {' and '.join(EXCLUSIVE_FLAGS)}")
    if not policy.nodes and policy.mode not in WITHOUT_NODES:
        raise ValueError(f"nodes must be set for {policy.mode}: {NODES_HELP}")
    if policy.nodes and policy.mode in WITHOUT_NODES:
        raise ValueError(f"nodes must be empty for {policy.mode}")
    read_nodes(policy.nodes)


def read_nodes(nodes: str) -> str | int | frozenset[int]:
    """Parse a value of `nodes`: a keyword, the distance of `max-dist:`, or a list.

    Raises:
        ValueError: the value is invalid; the message begins with `nodes`.
    """
    if nodes in NODE_KEYWORDS:
        return nodes
    distance = nodes.removeprefix("max-dist:")
    if distance != nodes:
        if not distance.isascii() or not distance.isdigit() or len(distance) > 9:
            raise ValueError(f"nodes must be max-dist: and a distance, such as max-dist:20, not {quote(distance[:40])}")
        return int(distance)
    if not nodes[0].isdigit():
        raise ValueError(f"nodes must be {NODES_HELP}, not {quote(cut(nodes, 40))}")
    try:
        return cpuset.parse(nodes)
    except ValueError as error:
        raise ValueError(f"nodes must be a list: {error}") from None


def resolve(nodes: str, topology: Topology, cpus: frozenset[int], mems: frozenset[int]) -> frozenset[int]:
    """The nodes that `nodes` selects for a container with these CPUs and memory nodes. Empty sets mean all.

    Raises:
        ValueError: `nodes` is invalid; the message begins with `nodes`.
    """
    selection, machine_nodes = read_nodes(nodes), frozenset(topology.nodes)
    cpus = cpus or topology.online
    local = frozenset(topology.cpus[cpu].node for cpu in cpus if cpu in topology.cpus)
    if isinstance(selection, int):
        rows = [topology.nodes[node].distances for node in local]
        return frozenset(node for node in machine_nodes if any(row[node] <= selection for row in rows))
    if isinstance(selection, frozenset):
        if not selection <= machine_nodes:
            raise ValueError(
                f"nodes must exist on this machine, which has {cpuset.to_text(machine_nodes)}, not {nodes}"
            )
        return selection
    if selection == "all":
        return machine_nodes
    if selection == "allowed-mems":
        return mems or machine_nodes
    if selection == "cpu-nodes":
        return local
    packages = {topology.cpus[cpu].package for cpu in cpus if cpu in topology.cpus}
    return (
        frozenset(node for node in machine_nodes if _package(topology, node) in packages) if selection else frozenset()
    )


def _package(topology: Topology, node: int) -> int:
    """The package of a memory node. A node without CPUs has the package of the nearest node with CPUs."""
    distances = topology.nodes[node].distances
    local = min(
        (other for other in topology.nodes.values() if other.cpus), key=lambda candidate: distances[candidate.number]
    )
    return topology.cpus[min(local.cpus)].package


if __name__ == "__main__":
    MemoryPolicyPlugin.main()
