"""`nri placement`: show where containers are, or would be, and why.

A running plugin is asked over the socket next to its state file. With --pods no plugin is asked:
`nri.placement.simulate` places the containers of manifests on a described machine, and the same code prints the result.
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

_PLACED = [Column("CPUS", "cpus"), Column("MEMORY", "mems"), Column("SHARES", "shares"), Column("REFUSED", "refused")]
_PLACES = [
    Column("PLACE", "place"),
    Column("CPUS", "cpus"),
    Column("SHARED", "shared"),
    Column("MEMORY", "mems"),
    Column("FREE CPU", "free"),
    Column("FREE MEMORY", "memory"),
    Column("CONTAINERS", "containers", cut=80),
]
_CONTAINERS = [
    Column("CONTAINER", "container"),
    Column("CLASS", "qos", extra=True),
    Column("PLACE", "place"),
    Column("CPUS", "cpus"),
    Column("MEMORY", "mems"),
    Column("SHARES", "shares", extra=True),
]
_CPU_CLASSES = [Column("CPU CLASS", "class"), Column("CPUS", "cpus"), Column("SETTINGS", "settings")]
_INTERRUPTS = [
    Column("INTERRUPTS FOR", "who"),
    Column("CPUS", "cpus"),
    Column("TAKES", "claim"),
    Column("IS SPARED", "mask"),
]
_CANDIDATES = [
    Column("PLACE", "place"),
    Column("HAS", "has"),
    Column("DECIDED BY", "lost"),
    Column("WOULD NEED", "change"),
]


def _described(required: bool) -> Callable[[Any], Any]:
    """The options of a machine and pods on paper."""
    options = [
        click.option("--machine", metavar="DIR|SNAPSHOT", default="/",
                     help="The machine's root, a copy of its /sys below a folder, or an archive of one."),
        click.option("--pods", metavar="FILE", required=required, help="Manifests of pods, created in their order."),
    ]  # fmt: skip

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_RESOURCE = f"A {RESOURCE_KINDS} resource; default: {DEFAULT_POLICY.name}, one reserved CPU"
_POLICY = click.option("--policy", metavar="FILE", default="", help=f"{_RESOURCE}.")
_STATE = click.option(
    "--state-dir", metavar="DIR", default="/var/lib/nri/placement", help="The plugin's stateDir, where its socket is."
)


@click.group(
    cls=VerbGroup,
    examples=[
        "nri placement show",
        "nri placement explain default/web/main",
        "nri placement simulate --machine snapshot.tar.xz --policy policy.yaml --pods pods.yaml",
    ],
    help=f"Show where {POLICY_NAMES} has placed containers, and why, or simulate it.",
)
def placement() -> None:
    """Group the verbs of placement."""


@placement.command(
    cls=Verb,
    short_help="show where containers of manifests would run, under one policy or two",
    examples=[
        "nri placement simulate --policy policy.yaml --pods pods.yaml",
        "nri placement simulate --machine snapshot/ --policy policy.yaml --pods pods.yaml -o json",
        "nri placement simulate --policy before.yaml --policy after.yaml --pods pods.yaml",
    ],
)
@_described(required=True)
@click.option("--policy", metavar="FILE", multiple=True, help=f"{_RESOURCE}; two are compared.")
@click.pass_obj
def simulate(settings: Settings, machine: str, policy: tuple[str, ...], pods: str) -> int:
    """Show where the containers of manifests would run. Needs neither root nor a runtime.

    The machine is this one, or any whose /sys was copied. Ends with 1 if a container is refused.
    """
    if len(policy) > 2:
        raise click.UsageError("give one --policy, or two to compare them")
    topology = _topology(machine)
    runs = [_simulate(settings, topology, path, pods) for path in policy or ("",)]
    columns = [Column("CONTAINER", "container"), *_PLACED]
    rows = [{"container": str(each)} | _placed(runs[0], id_) for id_, each in runs[0].containers.items()]
    if len(runs) == 2:
        columns += [Column(f"THEN {column.title}", f"{column.key}_after") for column in _PLACED]
        for row, id_ in zip(rows, runs[1].containers, strict=True):
            row |= {f"{key}_after": value for key, value in _placed(runs[1], id_).items()}
    Output(settings).table(columns, rows)
    return FAILED if any(run.refused for run in runs) else 0


@placement.command(
    cls=Verb,
    short_help="show or draw pools or balloons, what is free, and who is where",
    examples=[
        "sudo nri placement show                 # ask the plugin that runs here",
        "sudo nri placement show --svg node.svg  # draw it",
        "nri placement show --machine snapshot/ --policy policy.yaml --pods pods.yaml",
    ],
)
@click.option("--svg", metavar="FILE", type=click.Path(dir_okay=False), help="Draw packages, nodes, caches and cores.")
@_STATE
@_described(required=False)
@_POLICY
@click.pass_obj
def show(settings: Settings, svg: str | None, state_dir: str, machine: str, policy: str, pods: str | None) -> None:
    """Show pools or balloons with their CPUs, memory and what is free, and the containers in them.

    If there are classes of CPUs, or containers with an irq-affinity, it also shows how CPUs and interrupts are set.

    The plugin that runs here answers, to root. With --pods, no plugin is asked: the placement is simulated.
    """
    from nri.placement.drawing import draw
    from nri.placement.policy import document

    _check(machine, policy, pods)
    if pods:
        done = _simulate(settings, _topology(machine), policy, pods)
        refused = [f"{done.containers[each]}: {reason}" for each, reason in done.refused.items()]
        found = document(done.policy) | {"refused": refused}
    else:
        found = ask_placement(state_dir, "/show", settings.timeout_s)
    out = Output(settings)
    if svg:
        try:
            Path(svg).write_text(draw(found), encoding="utf-8")
        except OSError as error:
            raise Failure(f"{svg}: {error.strerror}") from None
    if not out.human:
        out.document(found)
        return
    out.table(_PLACES, [_place_row(each) for each in found["places"]])
    out.text("")
    out.table(_CONTAINERS, found["containers"])
    wishes = [_interrupts_row(each) for each in found.get("interrupts", ())]  # an older plugin says nothing of them
    for columns, rows in ((_CPU_CLASSES, found.get("cpu_classes")), (_INTERRUPTS, wishes)):
        if rows:
            out.text("")
            out.table(columns, rows)
    for problem in found.get("not_set", ()):
        out.text(f"not set: {problem}")
    for container in found.get("squeezed", ()):
        out.text(f"waits for room: {container}")
    for each in found["containers"]:
        if each.get("unmet"):
            out.text(f"not as it asks: {each['container']}: {each['unmet']}")
    for container in found.get("refused", ()):
        out.text(f"refused: {container}")


@placement.command(
    cls=Verb,
    short_help="explain why a container is where it is, and what decided",
    examples=[
        "sudo nri placement explain default/web/main",
        "nri placement explain web --machine snapshot/ --policy policy.yaml --pods pods.yaml",
    ],
)
@click.argument("container")
@_STATE
@_described(required=False)
@_POLICY
@click.pass_obj
def explain(settings: Settings, container: str, state_dir: str, machine: str, policy: str, pods: str | None) -> None:
    """Explain why a container is where it is: its class, every place that was looked at, and what decided.

    CONTAINER is an id, NAMESPACE/POD/NAME, POD/NAME, or a name that only one has. The last column says what would have
    to be different for another place. The plugin that runs here answers, to root; with --pods the placement is
    simulated.
    """
    from nri.placement.policy import explanation_document, find_container

    _check(machine, policy, pods)
    if pods:
        done = _simulate(settings, _topology(machine), policy, pods)
        try:
            meant = find_container(done.containers, container)
        except LookupError as error:
            raise Failure(str(error.args[0])) from None
        if meant.id in done.refused:
            raise Failure(f"{meant} is refused: {done.refused[meant.id]}")
        found = explanation_document(done.policy, meant.id)
    else:
        found = ask_placement(state_dir, "/explain", settings.timeout_s, container=container)
    out = Output(settings)
    if not out.human:
        out.document(found)
        return
    out.text(f"{found['container']}: {found['request']}")
    given = f"CPUs {found['cpus'] or 'as they are'}, memory nodes {found['mems'] or 'as they are'}"
    out.text(f"is in {found['place'] or 'no place'}, with {given}, {found['shares']} shares")
    if found.get("squeezed"):
        out.text(f"waits for room: {found['squeezed']}")
    if found.get("unmet"):
        out.text(f"not as it asks: {found['unmet']}")
    for doubt in found["doubts"]:
        out.text(f"not read: {doubt}")
    if not found["then"]:
        out.text("it was taken over from an earlier run; this is how it would be decided now")
    out.text("")
    out.table(_CANDIDATES, found["candidates"])
    if found["more"]:
        out.note(f"({found['more']} more were looked at)")


@placement.command(
    cls=Verb,
    short_help="give a plugin the custom resource of its node, and write its state back",
    examples=[
        "sudo nri placement follow topology-aware --node $(hostname) --kubeconfig admin.conf",
        "nri placement follow balloons --once     # in an init container, before the plugin",
    ],
)
@click.argument("plugin", type=click.Choice(sorted(POLICIES)))
@click.option("--node", metavar="NAME", envvar="NODE_NAME", required=True, help="This node; default: $NODE_NAME.")
@click.option("--namespace", metavar="NAME", default="kube-system", show_default=True, help="Where the resources are.")
@click.option(
    "--group-label",
    metavar="LABEL",
    default="config.nri/group",
    show_default=True,
    help="Label of the node: its group.",
)
@click.option("--kubeconfig", metavar="FILE", default="", help="The apiserver; without it that of the pod's account.")
@click.option("--once", is_flag=True, help="Exit when there is a file; replace one only if the plugin takes it.")
@_STATE
@click.pass_obj
def follow(
    settings: Settings,
    plugin: str,
    node: str,
    namespace: str,
    group_label: str,
    kubeconfig: str,
    once: bool,
    state_dir: str,
) -> None:
    """Give a plugin the custom resource of its node, and write its state back.

    Of the resources of its kind in the namespace `node.NAME` comes first, then `group.GROUP`, then `default`. It
    becomes the file PLUGIN.policy.json in --state-dir, which the plugin's --config has to name. Whether the plugin
    takes it is in the resource's status, and the places that it gives to containers are in the node's
    NodeResourceTopology. Runs beside the plugin, which needs no access to the apiserver.
    """
    from nri.cli.support.logs import log_to
    from nri.kube.client import connect
    from nri.placement.custom_resource import Place, follow_until_stopped

    log_to(settings, "info")
    row = POLICIES[plugin]
    options, file = row.load().plugin_options_type, Path(state_dir, f"{plugin}.policy.json")
    place = Place(row.resource, options, node, namespace, group_label, file)
    with connect(kubeconfig) as api:
        follow_until_stopped(api, place, lambda: _shown(settings, state_dir, plugin), once)


# -- on paper ---------------------------------------------------------------------------------------------------------


def _check(machine: str, policy: str, pods: str | None) -> None:
    """Refuse a machine or a policy that nobody would look at."""
    if not pods and (policy or machine != "/"):
        raise click.UsageError(f"--{'policy' if policy else 'machine'} goes with --pods: without it a plugin is asked")


def _topology(machine: str) -> Topology:
    from nri.placement.snapshot import read_machine

    return read_machine(machine)


def _simulate(settings: Settings, topology: Topology, policy: str, pods: str) -> Simulation:
    """Place the containers of manifests; print what has no effect."""
    from nri.config import read_file
    from nri.kube.manifest import read_manifests
    from nri.placement.simulate import read_resource, simulate, total_memory_bytes

    resource, out = read_resource(policy), Output(settings)
    workloads = read_manifests(read_file(pods), node_bytes=total_memory_bytes(topology))
    return simulate(topology, resource, out.counted(workloads, "pod"), out.note)


def _placed(run: Simulation, container_id: str) -> dict[str, Any]:
    """The placement of one container, or why it has none."""
    pins = run.policy.pins.get(container_id)
    given = {} if pins is None else {key: value for key, value in pins._asdict().items() if value is not None}
    return {**given, "refused": run.refused.get(container_id, "")}


# -- what a plugin that runs says -------------------------------------------------------------------------------------


def _shown(settings: Settings, folder: str, plugin: str) -> Any:
    """The placement that a plugin shows. NriError without an answer."""
    return ask_placement(folder, "/show", settings.timeout_s, plugin=plugin)


def _place_row(place: Mapping[str, Any]) -> dict[str, Any]:
    """A place as a row of the table."""
    gib = 1 << 30
    return {
        **place,
        "place": "  " * place["depth"] + place["name"],
        "free": f"{max(place['free_m'], 0)}m",
        "memory": f"{place['memory_free_bytes'] / gib:.1f} of {place['memory_bytes'] / gib:.1f} GiB",
        "containers": ", ".join(place["containers"]),
    }


def _interrupts_row(wish: Mapping[str, Any]) -> dict[str, Any]:
    """Who wants interrupts, or is spared them, as a row of the table."""
    takes = [*wish["claim"], *(["those that nobody takes"] if wish["sink"] else [])]
    return {**wish, "claim": ", ".join(takes), "mask": ", ".join(wish["mask"])}


command = placement
