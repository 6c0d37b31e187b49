"""`nri pod stats`: what containers use. Next: `nri.cli.support.cri` asks for them."""

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
    short_help="show what containers use: CPU, memory, disk",
    examples=["nri pod stats", "nri pod stats web --interval 5s", "nri pod stats -o json"],
)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option("--interval", type=DURATION, default="1s", metavar="1s", help="The time over which CPU is measured.")
@cri_option
@click.pass_obj
def command(settings: Settings, pods: tuple[str, ...], interval: float, cri_socket: str | None) -> None:
    """Show the use of running containers: CPU over an interval, in cores; memory that counts against a limit; disk.

    POD is an id or the beginning of one, NAME or NAMESPACE/NAME. With -o json: all that the runtime reports.
    """
    from google.protobuf.json_format import MessageToDict

    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        there = support.list_pods(cri)
        wanted = {one.id: one for one in ([support.find_pod(word, there) for word in pods] if pods else there)}
        of = {one.id: one for one in support.list_containers(cri) if one.pod_sandbox_id in wanted}
        before = _stats(cri)
        if out.human and not out.quiet:
            time.sleep(min(interval, 3600.0))
        now = {key: one for key, one in _stats(cri).items() if key in of}
    if not out.human:
        out.document([MessageToDict(one, always_print_fields_with_no_presence=True) for one in now.values()])
    elif out.quiet:
        out.names(now)
    else:
        rows = [{**_row(one, before.get(key)), "pod": support.full_name(wanted[of[key].pod_sandbox_id])}
                for key, one in now.items()]  # fmt: skip
        out.table(_COLUMNS, sorted(rows, key=lambda row: (row["pod"], row["name"])))


def _stats(cri: CriClient) -> dict[str, Any]:
    """The numbers of every container that has some, by its id."""
    from nri.cri.pb import api_pb2 as pb

    return {one.attributes.id: one for one in cri.call("ListContainerStats", pb.ListContainerStatsRequest()).stats}


def _row(now: Any, before: Any) -> dict[str, str]:
    """The numbers of a container, "" for those that are not known."""
    row = {"id": now.attributes.id, "name": now.attributes.metadata.name, "cpu": ""}
    if before is not None and now.cpu.timestamp > before.cpu.timestamp:
        used = now.cpu.usage_core_nano_seconds.value - before.cpu.usage_core_nano_seconds.value
        row["cpu"] = f"{max(used, 0) / (now.cpu.timestamp - before.cpu.timestamp):.3f}"
    elif now.cpu.HasField("usage_nano_cores"):
        row["cpu"] = f"{now.cpu.usage_nano_cores.value / 1e9:.3f}"
    sizes = (("memory", now.memory, "working_set_bytes"), ("rss", now.memory, "rss_bytes"),
             ("disk", now.writable_layer, "used_bytes"))  # fmt: skip
    given = {key: getattr(part, name).value if part.HasField(name) else None for key, part, name in sizes}
    return row | {key: "" if number is None else size(number).replace(" ", "") for key, number in given.items()}
