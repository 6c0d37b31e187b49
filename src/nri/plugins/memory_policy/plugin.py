"""`memory-policy`: give containers a NUMA memory policy, by classes of an operator and by annotations.

One job: a mode, flags, and nodes that are worked out from where a container may run. It is given as NRI's memory
policy, which few runtimes know yet, or, with `injectMpolset`, by the program `mpolset` (mpolset.c) before the own one.
Best with a high index, after the plugins that pin CPUs and memory. How annotations are found and read is in
`nri.plugins.annotations`, the machine in `nri.host.topology`.
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

__all__ = ["MemoryPolicyPlugin", "Policy", "resolve"]

DOMAIN = "memory-policy.nri.io"
#: Where containers find the program, and where the node has it for them.
INJECTED = "/mnt/nri-memory-policy-mpolset"
PROGRAM = "mpolset"
#: A static program has less than a megabyte.
MAX_PROGRAM_BYTES = 16 << 20
#: Modes that take no nodes.
WITHOUT_NODES = ("MPOL_DEFAULT", "MPOL_LOCAL")
#: Words for nodes; none is meant by no word.
NODE_KEYWORDS = ("", "all", "allowed-mems", "cpu-packages", "cpu-nodes")
#: Flags of which one is enough, and the one that only some modes take. Source: set_mempolicy(2).
EXCLUSIVE_FLAGS = ("MPOL_F_STATIC_NODES", "MPOL_F_RELATIVE_NODES")
BALANCING, BALANCED = "MPOL_F_NUMA_BALANCING", ("MPOL_BIND", "MPOL_PREFERRED_MANY")
NODES_HELP = "all, allowed-mems, cpu-packages, cpu-nodes, max-dist:20, or a list such as 0-1"


class Policy(NamedTuple):
    """A policy as it is written."""

    mode: str
    nodes: str = ""
    flags: tuple[str, ...] = ()


class PolicyKeys:
    """The policy of a class in the configuration.

    Attributes:
        mode: of set_mempolicy, such as MPOL_INTERLEAVE.
        nodes: all, allowed-mems, cpu-packages, cpu-nodes, max-dist:20, or a list such as 0-1.
        flags: of set_mempolicy, such as MPOL_F_STATIC_NODES.
    """

    mode: str
    nodes: str = ""
    flags: tuple[str, ...] = ()


class PolicyClass:
    """A class of the configuration: its name and its policy.

    Attributes:
        name: what annotations call it.
    """

    name: str
    policy: PolicyKeys

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a class has an empty name")
        check(Policy(self.policy.mode, self.policy.nodes, self.policy.flags))


class MemoryPolicyPlugin(nri.Plugin):
    """Set the NUMA memory policy of containers, by classes and annotations."""

    name = "memory-policy"
    sets = ("linux.memory_policy", "args", "mounts")
    annotations: ClassVar[Mapping[str, str]] = {
        f"class.{DOMAIN}": "name of a class of the configuration; empty: none",
        f"policy.{DOMAIN}": f"{{mode, nodes, flags}}; nodes: {NODES_HELP}",
    }
    flags: ClassVar[Mapping[str, Flag]] = {
        "host-root": Flag("hostRoot", "DIR", "where the node's root is (default /)"),
        "mpolset": Flag("mpolset", "FILE", "the program to inject (default: beside this one, or in PATH)"),
    }

    class Config:
        """Keys of the configuration.

        Attributes:
            injectMpolset: set the policy by a program before the container's own, for runtimes that cannot.
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
                raise ValueError(f"nodes must mean some: {quote(cut(policy.nodes, 40))} means none for this container")
            adjustment = self._adjustment(policy, cpuset.to_text(nodes), container)
        allowed = cpuset.parse(cpu.mems) or frozenset(self.topology.nodes)
        if not nodes <= allowed:
            words = cpuset.to_text(nodes), cpuset.to_text(allowed)
            self.log.warning("%s: nodes %s are not all among those that it may use, %s", annotation.key, *words)
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
        """The annotation that counts, and the policy that it asks for; None if there is none, or an empty one."""
        scope = f"/container.{container.name}"
        annotations = by_prefix(pod, container.name, DOMAIN, "/container.")
        candidates = [annotations.pop(prefix) for prefix in ("policy", "class") if prefix in annotations]
        for stray in annotations.values():
            wrong = stray.refusal("", "it is not known", f"write policy.{DOMAIN} or class.{DOMAIN}")
            if not candidates:
                raise wrong
            self.log.warning("%s", wrong)
        candidates = [annotation for annotation in candidates if annotation.key.endswith(scope)] or candidates
        if len(candidates) > 1:
            raise candidates[0].refusal("", f"{candidates[1].key} is there as well", "leave one of the two out")
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
        raise annotation.refusal("", f"there is no class {quote(annotation.text[:64])}", f"classes here: {names}")

    def _install_program(self) -> None:
        """Put the program where containers get it from."""
        neighbour = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), PROGRAM)
        source = self.config.mpolset or (neighbour if os.path.exists(neighbour) else shutil.which(PROGRAM) or "")
        if not source:
            text = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{PROGRAM}.c")
            build = f"build it once: cc -O2 -static -o /usr/local/bin/{PROGRAM} {text}"
            raise nri.ConfigError("configuration", "injectMpolset", f"there is no program {PROGRAM} here", build)
        folder = self.config.hostRoot.rstrip("/") + INJECTED
        target = os.path.join(folder, PROGRAM)
        try:
            os.makedirs(folder, exist_ok=True)
            status = os.lstat(folder)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                reason = f"{folder} is a link, or others may write there, and containers would run what they put there"
                raise nri.ConfigError("configuration", "injectMpolset", reason, "remove it")
            os.chmod(folder, 0o755)  # noqa: S103 - containers of all users run it, whatever the umask is
            program = read_regular(source, MAX_PROGRAM_BYTES)
            if not os.path.exists(target) or read_regular(target, MAX_PROGRAM_BYTES) != program:
                write_whole(target, program, 0o755)
        except OSError as error:
            reason = f"cannot copy {source} to {target}: {error.strerror or error}"
            raise nri.ConfigError("configuration", "injectMpolset", reason) from None
        self.log.info("%s is %s", target, source)


def check(policy: Policy) -> None:
    """Refuse a mode, flags or nodes that are none, or not together. ValueError names the key, as the builders' do."""
    if policy.mode not in MpolMode.keys():  # noqa: SIM118 - an enum's, whose items are no names
        raise ValueError(f"mode must be one of {', '.join(MpolMode.keys())}, not {quote(cut(policy.mode, 40))}")
    for flag in policy.flags:
        if flag not in MpolFlag.keys():  # noqa: SIM118
            raise ValueError(f"flags must be of {', '.join(MpolFlag.keys())}, not {quote(cut(flag, 40))}")
    if policy.flags and policy.mode == "MPOL_LOCAL":
        raise ValueError("flags must not be given for MPOL_LOCAL: the kernel refuses it with some")
    if BALANCING in policy.flags and policy.mode not in BALANCED:
        raise ValueError(f"flags must not have {BALANCING} for {policy.mode}: only {' and '.join(BALANCED)} take it")
    if set(EXCLUSIVE_FLAGS) <= set(policy.flags):
        raise ValueError(f"flags must not have both {' and '.join(EXCLUSIVE_FLAGS)}: the kernel refuses them together")
    if not policy.nodes and policy.mode not in WITHOUT_NODES:
        raise ValueError(f"nodes must be given for {policy.mode}: {NODES_HELP}")
    if policy.nodes and policy.mode in WITHOUT_NODES:
        raise ValueError(f"nodes must not be given for {policy.mode}: the kernel refuses it with some")
    read_nodes(policy.nodes)


def read_nodes(nodes: str) -> str | int | frozenset[int]:
    """What a text of nodes means on any machine: a word, the distance of `max-dist:`, or a list.

    Raises:
        ValueError: it means no nodes; begins with `nodes`.
    """
    if nodes in NODE_KEYWORDS:
        return nodes
    distance = nodes.removeprefix("max-dist:")
    if distance != nodes:
        if not distance.isascii() or not distance.isdigit() or len(distance) > 9:
            raise ValueError(
                f"nodes must have a distance after max-dist:, such as max-dist:20, not {quote(distance[:40])}"
            )
        return int(distance)
    if not nodes[0].isdigit():
        raise ValueError(f"nodes must be {NODES_HELP}, not {quote(cut(nodes, 40))}")
    try:
        return cpuset.parse(nodes)
    except ValueError as error:
        raise ValueError(f"nodes must be a list: {error}") from None


def resolve(nodes: str, topology: Topology, cpus: frozenset[int], mems: frozenset[int]) -> frozenset[int]:
    """The nodes that are meant, for a container that may use these CPUs and memory nodes; of none it may use all.

    Raises:
        ValueError: the text means no nodes; begins with `nodes`.
    """
    selection, machine_nodes = read_nodes(nodes), frozenset(topology.nodes)
    cpus = cpus or topology.online
    local = frozenset(topology.cpus[cpu].node for cpu in cpus if cpu in topology.cpus)
    if isinstance(selection, int):
        rows = [topology.nodes[node].distances for node in local]
        return frozenset(node for node in machine_nodes if any(row[node] <= selection for row in rows))
    if isinstance(selection, frozenset):
        if not selection <= machine_nodes:
            raise ValueError(f"nodes must be of this machine, which has {cpuset.to_text(machine_nodes)}, not {nodes}")
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
    """The package of a memory node; of one without CPUs that of the nearest with some."""
    distances = topology.nodes[node].distances
    local = min(
        (other for other in topology.nodes.values() if other.cpus), key=lambda candidate: distances[candidate.number]
    )
    return topology.cpus[min(local.cpus)].package


if __name__ == "__main__":
    MemoryPolicyPlugin.main()
