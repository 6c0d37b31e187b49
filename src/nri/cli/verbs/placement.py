"""`nri placement`: show or simulate the CPUs and memory nodes of containers, and explain them.

A running plugin answers over the socket next to its state file. With --pods, `nri.placement.simulate` places the
containers of manifests instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb, VerbGroup
from nri.placement.client import ask_placement
from nri.placement.registry import DEFAULT_POLICY, POLICIES, POLICY_NAMES, RESOURCE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nri.host.topology import Topology
    from nri.placement.simulate import Simulation

_PLACEMENT_COLUMNS = [
    Column("CPUS", "cpus"),
    Column("MEMORY", "mems"),
    Column("SHARES", "shares"),
    Column("REFUSED", "refused"),
]
_PLACE_COLUMNS = [
    Column("PLACE", "place"),
    Column("CPUS", "cpus"),
    Column("SHARED", "shared"),
    Column("MEMORY", "mems"),
    Column("FREE CPU", "free"),
    Column("FREE MEMORY", "memory"),
    Column("CONTAINERS", "containers", cut=80),
]
_CONTAINER_COLUMNS = [
    Column("CONTAINER", "container"),
    Column("CLASS", "qos", extra=True),
    Column("PLACE", "place"),
    Column("CPUS", "cpus"),
    Column("MEMORY", "mems"),
    Column("SHARES", "shares", extra=True),
]
_CPU_CLASS_COLUMNS = [Column("CPU CLASS", "class"), Column("CPUS", "cpus"), Column("SETTINGS", "settings")]
_INTERRUPT_COLUMNS = [
    Column("INTERRUPTS FOR", "who"),
    Column("CPUS", "cpus"),
    Column("HANDLES", "claim"),
    Column("AVOIDS", "mask"),
]
_CANDIDATE_COLUMNS = [
    Column("PLACE", "place"),
    Column("CAPACITY", "has"),
    Column("DECIDED BY", "lost"),
    Column("CHOSEN IF", "change"),
]


def _simulation_options(required: bool) -> Callable[[Any], Any]:
    """The options that describe the machine and the pods of a simulation."""
    options = [
        click.option("--machine", metavar="DIR|SNAPSHOT", default="/",
                     help="The machine: its root folder, a folder with a copy of its /sys, or an archive of the copy."),
        click.option("--pods", metavar="FILE", required=required, help="Manifests of the pods, in order of creation."),
    ]  # fmt: skip

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_RESOURCE = f"A {RESOURCE_KINDS} resource. Default: {DEFAULT_POLICY.name} with one reserved CPU"
_POLICY = click.option("--policy", metavar="FILE", default="", help=f"{_RESOURCE}.")
_STATE = click.option(
    "--state-dir",
    metavar="DIR",
    default="/var/lib/nri/placement",
    help="The folder of the plugin's state and socket (its setting stateDir).",
)


@click.group(
    cls=VerbGroup,
    examples=[
        "nri placement show",
        "nri placement explain default/web/main",
        "nri placement simulate --machine snapshot.tar.xz --policy policy.yaml --pods pods.yaml",
    ],
    help=f"Show, explain or simulate the placement of containers by {POLICY_NAMES}.",
)
def placement() -> None:
    """The group of the placement verbs."""


@placement.command(
    cls=Verb,
    short_help="simulate the placement of pods from manifests, under one or two policies",
    examples=[
        "nri placement simulate --policy policy.yaml --pods pods.yaml",
        "nri placement simulate --machine snapshot/ --policy policy.yaml --pods pods.yaml -o json",
        "nri placement simulate --policy before.yaml --policy after.yaml --pods pods.yaml",
    ],
)
@_simulation_options(required=True)
@click.option("--policy", metavar="FILE", multiple=True, help=f"{_RESOURCE}. Give two files to compare them.")
@click.pass_obj
def simulate(settings: Settings, machine: str, policy: tuple[str, ...], pods: str) -> int:
    """Simulate the placement of the containers of manifests. Needs neither root nor a runtime.

    The machine is this one, or any other with a copy of its /sys. The exit code is 1 if a container is refused.
    """
    if len(policy) > 2:
        raise click.UsageError("give --policy once, or twice to compare two policies")
    topology = _topology(machine)
    runs = [_simulate(settings, topology, path, pods) for path in policy or ("",)]
    columns = [Column("CONTAINER", "container"), *_PLACEMENT_COLUMNS]
    rows = [
        {"container": str(container)} | _placement_row(runs[0], id_) for id_, container in runs[0].containers.items()
    ]
    if len(runs) == 2:
        columns += [Column(f"THEN {column.title}", f"{column.key}_after") for column in _PLACEMENT_COLUMNS]
        for row, id_ in zip(rows, runs[1].containers, strict=True):
            row |= {f"{key}_after": value for key, value in _placement_row(runs[1], id_).items()}
    Output(settings).table(columns, rows)
    return FAILED if any(run.refused for run in runs) else 0


@placement.command(
    cls=Verb,
    short_help="show pools or balloons, their free resources and containers; or draw a picture",
    examples=[
        "sudo nri placement show                 # ask the running plugin",
        "sudo nri placement show --svg node.svg  # draw a picture",
        "nri placement show --machine snapshot/ --policy policy.yaml --pods pods.yaml",
    ],
)
@click.option("--svg", metavar="FILE", type=click.Path(dir_okay=False), help="Draw packages, nodes, caches, cores.")
@_STATE
@_simulation_options(required=False)
@_POLICY
@click.pass_obj
def show(settings: Settings, svg: str | None, state_dir: str, machine: str, policy: str, pods: str | None) -> None:
    """Show pools or balloons with their CPUs, memory, free resources and containers.

    Also shows CPU classes, and the interrupts of containers with an irq-affinity, if there are any.

    The running plugin answers, and only to root. With --pods the placement is simulated instead.
    """
    from nri.placement.drawing import draw
    from nri.placement.policy import document

    _check(machine, policy, pods)
    if pods:
        simulation = _simulate(settings, _topology(machine), policy, pods)
        refused = [f"{simulation.containers[id_]}: {reason}" for id_, reason in simulation.refused.items()]
        state = document(simulation.policy) | {"refused": refused}
    else:
        state = ask_placement(state_dir, "/show", settings.timeout_s)
    out = Output(settings)
    if svg:
        try:
            Path(svg).write_text(draw(state), encoding="utf-8")
        except OSError as error:
            raise Failure(f"{svg}: {error.strerror}") from None
    if not out.human:
        out.document(state)
        return
    out.table(_PLACE_COLUMNS, [_place_row(place) for place in state["places"]])
    out.text("")
    out.table(_CONTAINER_COLUMNS, state["containers"])
    interrupts = [_interrupts_row(row) for row in state.get("interrupts", ())]  # older plugins do not report them
    for columns, rows in ((_CPU_CLASS_COLUMNS, state.get("cpu_classes")), (_INTERRUPT_COLUMNS, interrupts)):
        if rows:
            out.text("")
            out.table(columns, rows)
    for problem in state.get("not_set", ()):
        out.text(f"not set: {problem}")
    for container in state.get("squeezed", ()):
        out.text(f"waits for free resources: {container}")
    for entry in state["containers"]:
        if entry.get("unmet"):
            out.text(f"request not met: {entry['container']}: {entry['unmet']}")
    for container in state.get("refused", ()):
        out.text(f"refused: {container}")


@placement.command(
    cls=Verb,
    short_help="explain the placement of a container",
    examples=[
        "sudo nri placement explain default/web/main",
        "nri placement explain web --machine snapshot/ --policy policy.yaml --pods pods.yaml",
    ],
)
@click.argument("container")
@_STATE
@_simulation_options(required=False)
@_POLICY
@click.pass_obj
def explain(settings: Settings, container: str, state_dir: str, machine: str, policy: str, pods: str | None) -> None:
    """Explain the placement of a container: its class, every pool or balloon that was considered, and what decided.

    CONTAINER is an id, NAMESPACE/POD/NAME, POD/NAME, or a unique name. The last column shows what would have to change
    for another pool or balloon to be chosen. The running plugin answers, and only to root; with --pods the placement
    is simulated.
    """
    from nri.placement.policy import explanation_document, find_container

    _check(machine, policy, pods)
    if pods:
        simulation = _simulate(settings, _topology(machine), policy, pods)
        try:
            target = find_container(simulation.containers, container)
        except LookupError as error:
            raise Failure(str(error.args[0])) from None
        if target.id in simulation.refused:
            raise Failure(f"{target} is refused: {simulation.refused[target.id]}")
        explanation = explanation_document(simulation.policy, target.id)
    else:
        explanation = ask_placement(state_dir, "/explain", settings.timeout_s, container=container)
    out = Output(settings)
    if not out.human:
        out.document(explanation)
        return
    out.text(f"{explanation['container']}: {explanation['request']}")
    pinning = f"CPUs {explanation['cpus'] or 'unchanged'}, memory nodes {explanation['mems'] or 'unchanged'}"
    out.text(f"placed in {explanation['place'] or 'no place'}: {pinning}, {explanation['shares']} shares")
    if explanation.get("squeezed"):
        out.text(f"waits for free resources: {explanation['squeezed']}")
    if explanation.get("unmet"):
        out.text(f"request not met: {explanation['unmet']}")
    for doubt in explanation["doubts"]:
        out.text(f"not read: {doubt}")
    if not explanation["then"]:
        out.text("placed by an earlier run of the plugin; the table shows how the plugin would place it now")
    out.text("")
    out.table(_CANDIDATE_COLUMNS, explanation["candidates"])
    if explanation["more"]:
        out.note(f"({explanation['more']} more places were considered)")


@placement.command(
    cls=Verb,
    short_help="configure a plugin from the custom resource of its node, and report its state",
    examples=[
        "sudo nri placement follow topology-aware --node $(hostname) --kubeconfig admin.conf",
        "nri placement follow balloons --once     # in an init container, before the plugin",
    ],
)
@click.argument("plugin", type=click.Choice(sorted(POLICIES)))
@click.option("--node", metavar="NAME", envvar="NODE_NAME", required=True, help="The node's name. Default: $NODE_NAME.")
@click.option(
    "--namespace", metavar="NAME", default="kube-system", show_default=True, help="Namespace of the custom resources."
)
@click.option(
    "--group-label",
    metavar="LABEL",
    default="config.nri/group",
    show_default=True,
    help="The node label whose value is the node's group.",
)
@click.option(
    "--kubeconfig", metavar="FILE", default="", help="A kubeconfig for the API server. Default: the pod's account."
)
@click.option(
    "--once",
    "run_once",
    is_flag=True,
    help="Exit when the file exists. An existing file is replaced only if the plugin accepts the new content.",
)
@_STATE
@click.pass_obj
def follow(
    settings: Settings,
    plugin: str,
    node: str,
    namespace: str,
    group_label: str,
    kubeconfig: str,
    run_once: bool,
    state_dir: str,
) -> None:
    """Configure a plugin from the custom resource of its node, and report its state to the API server.

    The resource is node.NAME, or else group.GROUP, or else default. It is written to PLUGIN.policy.json in
    --state-dir; the plugin's --config must name this file. The status of the resource shows whether the plugin accepts
    it, and the node's NodeResourceTopology shows the placements. Run it next to the plugin, which then needs no access
    to the API server.
    """
    from nri.cli.support.logs import log_to
    from nri.kube.client import connect
    from nri.placement.custom_resource import Place, follow_until_stopped

    log_to(settings, "info")
    row = POLICIES[plugin]
    options, file = row.load().plugin_options_type, Path(state_dir, f"{plugin}.policy.json")
    place = Place(row.resource, options, node, namespace, group_label, file)
    with connect(kubeconfig) as api:
        follow_until_stopped(api, place, lambda: _ask_plugin(settings, state_dir, plugin), run_once)


# -- simulation -------------------------------------------------------------------------------------------------------


def _check(machine: str, policy: str, pods: str | None) -> None:
    """Refuse --machine and --policy without --pods, because they would have no effect."""
    if not pods and (policy or machine != "/"):
        raise click.UsageError(
            f"--{'policy' if policy else 'machine'} requires --pods: without it the running plugin answers"
        )


def _topology(machine: str) -> Topology:
    from nri.placement.snapshot import read_machine

    return read_machine(machine)


def _simulate(settings: Settings, topology: Topology, policy: str, pods: str) -> Simulation:
    """Place the containers of manifests, and print notes on keys without effect."""
    from nri.config import read_file
    from nri.kube.manifest import read_manifests
    from nri.placement.simulate import read_resource, simulate, total_memory_bytes

    resource, out = read_resource(policy), Output(settings)
    workloads = read_manifests(read_file(pods), node_bytes=total_memory_bytes(topology))
    return simulate(topology, resource, out.counted(workloads, "pod"), out.note)


def _placement_row(run: Simulation, container_id: str) -> dict[str, Any]:
    """The placement of one container, or the reason why it was refused."""
    pins = run.policy.pins.get(container_id)
    values = {} if pins is None else {key: value for key, value in pins._asdict().items() if value is not None}
    return {**values, "refused": run.refused.get(container_id, "")}


# -- running plugin ---------------------------------------------------------------------------------------------------


def _ask_plugin(settings: Settings, folder: str, plugin: str) -> Any:
    """Ask the running plugin for its placement. Raises NriError if the plugin does not answer."""
    return ask_placement(folder, "/show", settings.timeout_s, plugin=plugin)


def _place_row(place: Mapping[str, Any]) -> dict[str, Any]:
    """A pool or balloon as a row of the table."""
    gib = 1 << 30
    return {
        **place,
        "place": "  " * place["depth"] + place["name"],
        "free": f"{max(place['free_m'], 0)}m",
        "memory": f"{place['memory_free_bytes'] / gib:.1f} of {place['memory_bytes'] / gib:.1f} GiB",
        "containers": ", ".join(place["containers"]),
    }


def _interrupts_row(wish: Mapping[str, Any]) -> dict[str, Any]:
    """The interrupts that CPUs handle or avoid, as a row of the table."""
    takes = [*wish["claim"], *(["unclaimed interrupts"] if wish["sink"] else [])]
    return {**wish, "claim": ", ".join(takes), "mask": ", ".join(wish["mask"])}


command = placement
