"""`nri pod stats`: show the resource use of containers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Column, Output
from nri.cli.settings import DURATION, Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Runtime, Target
from nri.cli.support.verb import Verb
from nri.text import size

if TYPE_CHECKING:
    from nri.cri.client import CriClient

_COLUMNS = [
    Column("POD", "pod"),
    Column("CONTAINER", "name"),
    Column("CPU %", "cpu"),
    Column("MEM", "memory"),
    Column("RSS", "rss"),
    Column("DISK", "disk"),
    Column("ID", "id", 13, mark=False),
]


@click.command(
    "stats",
    cls=Verb,
    short_help="show the CPU, memory and disk use of containers",
    examples=["nri pod stats", "nri pod stats --watch -l app=web", "nri pod stats web -o json"],
)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option("--interval", type=DURATION, default="1s", metavar="1s", help="The time over which CPU is measured.")
@click.option("--watch", is_flag=True, help="Measure again and again, until Ctrl-C.")
@support.target_options(support.selector_option)
@click.pass_obj
def command(settings: Settings, pods: tuple[str, ...], interval: float, watch: bool, target: Target) -> None:
    """Show the resource use of running containers: CPU in % of a core, memory that counts against limits, and disk.

    POD is NAME, NAMESPACE/NAME, or the beginning of an id. -o json prints everything that the runtime reports, with
    --watch as one list per line.
    """
    out = Output(settings)
    with target.connect(settings) as runtime:
        ids = {pod.id for pod in map(runtime.pod, pods)}
        before = _stats(runtime.cri)
        while True:
            if watch or (out.human and not out.quiet):
                time.sleep(min(interval, 3600.0))
            now = _stats(runtime.cri)
            _print(out, runtime, ids, before, now, watch=watch)
            if not watch:
                return
            before = now
            runtime.refresh()


def _print(
    out: Output, runtime: Runtime, ids: set[str], before: dict[str, Any], now: dict[str, Any], *, watch: bool
) -> None:
    """Print the statistics of the selected containers; `ids` restricts them to these pods, unless it is empty."""
    pod_by_container = {
        container.id: runtime.pod_by_id[container.pod_sandbox_id]
        for container in runtime.containers
        if container.pod_sandbox_id in (ids or runtime.pod_by_id) and container.pod_sandbox_id in runtime.pod_by_id
    }
    stats = {key: one for key, one in now.items() if key in pod_by_container}
    if not out.human:
        documents = [support.to_document(one, pod_by_container[key]) for key, one in stats.items()]
        (out.stream if watch else out.document)(documents)
    elif out.quiet:
        out.names(stats)
    else:
        rows = [{**_row(one, before.get(key)), "pod": support.full_name(pod_by_container[key])}
                for key, one in stats.items()]  # fmt: skip
        rows.sort(key=lambda row: (row["pod"], row["name"]))
        # Below the rows are the heading, a note and the cursor.
        out.table(_COLUMNS, rows[: max(out.begin_screen() - 3, 1)] if watch else rows)
    out.flush()


def _stats(cri: CriClient) -> dict[str, Any]:
    """The statistics of all containers, by id."""
    from nri.cri.pb import api_pb2 as pb

    return {one.attributes.id: one for one in cri.call("ListContainerStats", pb.ListContainerStatsRequest()).stats}


def _row(now: Any, before: Any) -> dict[str, str]:
    """Return the row of a container. Unknown values are ""."""
    row = {"id": now.attributes.id, "name": now.attributes.metadata.name, "cpu": ""}
    if before is not None and now.cpu.timestamp > before.cpu.timestamp:
        used = now.cpu.usage_core_nano_seconds.value - before.cpu.usage_core_nano_seconds.value
        row["cpu"] = f"{100 * max(used, 0) / (now.cpu.timestamp - before.cpu.timestamp):.2f}"
    elif now.cpu.HasField("usage_nano_cores"):
        row["cpu"] = f"{now.cpu.usage_nano_cores.value / 1e7:.2f}"
    sizes = (("memory", now.memory, "working_set_bytes"), ("rss", now.memory, "rss_bytes"),
             ("disk", now.writable_layer, "used_bytes"))  # fmt: skip
    values = {key: getattr(part, name).value if part.HasField(name) else None for key, part, name in sizes}
    return row | {key: "" if number is None else size(number).replace(" ", "") for key, number in values.items()}
