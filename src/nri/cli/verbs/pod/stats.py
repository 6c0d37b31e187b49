"""`nri pod stats`: show the resource use of containers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Column, Output
from nri.cli.settings import DURATION, Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option
from nri.cli.support.verb import Verb
from nri.text import size

if TYPE_CHECKING:
    from nri.cri.client import CriClient

_COLUMNS = [
    Column("POD", "pod"),
    Column("CONTAINER", "name"),
    Column("CPU", "cpu"),
    Column("MEMORY", "memory"),
    Column("RSS", "rss"),
    Column("DISK", "disk"),
    Column("ID", "id", 13, mark=False),
]


@click.command(
    "stats",
    cls=Verb,
    short_help="show the CPU, memory and disk use of containers",
    examples=["nri pod stats", "nri pod stats web --interval 5s", "nri pod stats -o json"],
)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option("--interval", type=DURATION, default="1s", metavar="1s", help="The time over which CPU is measured.")
@cri_option
@click.pass_obj
def command(settings: Settings, pods: tuple[str, ...], interval: float, cri_socket: str | None) -> None:
    """Show the resource use of running containers: CPU in cores, memory that counts against limits, and disk.

    POD is an id or the beginning of one, NAME or NAMESPACE/NAME. -o json prints everything that the runtime reports.
    """
    from google.protobuf.json_format import MessageToDict

    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        all_pods = support.list_pods(cri)
        pod_by_id = {one.id: one for one in ([support.find_pod(word, all_pods) for word in pods] if pods else all_pods)}
        container_by_id = {one.id: one for one in support.list_containers(cri) if one.pod_sandbox_id in pod_by_id}
        before = _stats(cri)
        if out.human and not out.quiet:
            time.sleep(min(interval, 3600.0))
        stats_by_id = {key: one for key, one in _stats(cri).items() if key in container_by_id}
    if not out.human:
        out.document([MessageToDict(one, always_print_fields_with_no_presence=True) for one in stats_by_id.values()])
    elif out.quiet:
        out.names(stats_by_id)
    else:
        rows = [{**_row(one, before.get(key)), "pod": support.full_name(pod_by_id[container_by_id[key].pod_sandbox_id])}
                for key, one in stats_by_id.items()]  # fmt: skip
        out.table(_COLUMNS, sorted(rows, key=lambda row: (row["pod"], row["name"])))


def _stats(cri: CriClient) -> dict[str, Any]:
    """The statistics of all containers, by id."""
    from nri.cri.pb import api_pb2 as pb

    return {one.attributes.id: one for one in cri.call("ListContainerStats", pb.ListContainerStatsRequest()).stats}


def _row(now: Any, before: Any) -> dict[str, str]:
    """The row of a container. Values that are not known are ""."""
    row = {"id": now.attributes.id, "name": now.attributes.metadata.name, "cpu": ""}
    if before is not None and now.cpu.timestamp > before.cpu.timestamp:
        used = now.cpu.usage_core_nano_seconds.value - before.cpu.usage_core_nano_seconds.value
        row["cpu"] = f"{max(used, 0) / (now.cpu.timestamp - before.cpu.timestamp):.3f}"
    elif now.cpu.HasField("usage_nano_cores"):
        row["cpu"] = f"{now.cpu.usage_nano_cores.value / 1e9:.3f}"
    sizes = (("memory", now.memory, "working_set_bytes"), ("rss", now.memory, "rss_bytes"),
             ("disk", now.writable_layer, "used_bytes"))  # fmt: skip
    values = {key: getattr(part, name).value if part.HasField(name) else None for key, part, name in sizes}
    return row | {key: "" if number is None else size(number).replace(" ", "") for key, number in values.items()}
