"""`nri pod describe`: print what people ask about a pod, in the order of kubectl."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Target
from nri.cli.support.verb import Verb
from nri.cli.verbs.pod.inspect import pod_document
from nri.text import escape, size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.cli.support.cri import Runtime

_NONE = "<none>"


@click.command(
    cls=Verb,
    short_help="show the details of pods and their containers",
    examples=["nri pod describe web", "nri pod describe -n shop -l app=web"],
)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@support.target_options(support.selector_option)
@click.pass_obj
def describe(settings: Settings, pods: tuple[str, ...], target: Target) -> None:
    """Describe pods with their containers: addresses, states, images, resources and mounts.

    POD is NAME, NAMESPACE/NAME, or the beginning of an id. With -o json, each pod has all details, as those of nri pod
    inspect.
    """
    out = Output(settings)
    with target.connect(settings) as runtime:
        selected = runtime.selected(pods)
        if not out.human:
            out.document([pod_document(runtime, pod) for pod in selected])
            return
        for number, pod in enumerate(selected):
            if number:
                out.text("")
            _print_pod(out, runtime, pod)


def _print_pod(out: Output, runtime: Runtime, pod: Any) -> None:
    """Print a pod and the latest run of each of its containers, in the order of their creation."""
    from nri.cri.pb import api_pb2 as pb

    status = runtime.cri.call("PodSandboxStatus", pb.PodSandboxStatusRequest(pod_sandbox_id=pod.id)).status
    addresses = [status.network.ip, *(ip.ip for ip in status.network.additional_ips)]
    _print_rows(out, {
        "Name": pod.metadata.name, "Namespace": pod.metadata.namespace, "Pod ID": pod.id, "UID": pod.metadata.uid,
        "Created": _time(status.created_at), "Labels": _pairs(status.labels),
        "Annotations": _pairs(status.annotations), "State": support.state_name(status),
        "IPs": [address for address in addresses if address], "Runtime": status.runtime_handler,
    })  # fmt: skip
    out.text("Containers:")
    latest = {one.metadata.name: one for one in reversed(runtime.containers) if one.pod_sandbox_id == pod.id}
    for name, container in latest.items():
        request = pb.ContainerStatusRequest(container_id=container.id)
        out.text(f"  {name}:")
        _print_rows(out, _container_rows(runtime.cri.call("ContainerStatus", request).status), "    ")


def _container_rows(status: Any) -> dict[str, str | list[str]]:
    """The rows of a container."""
    ended = support.state_name(status) == "exited"
    exit_rows = {
        "Reason": status.reason, "Message": status.message, "Exit Code": str(status.exit_code),
        "Finished": _time(status.finished_at),
    }  # fmt: skip
    return {
        "Container ID": status.id,
        "Image": status.image.user_specified_image or status.image.image,
        "Image ID": status.image_ref or status.image_id,
        "State": support.state_name(status),
        "Started": _time(status.started_at),
        **(exit_rows if ended else {}),
        "Restart Count": str(status.metadata.attempt),
        "Limits": _limits(status.resources.linux),
        "Mounts": [
            f"{mount.container_path} from {mount.host_path or mount.image.image} ({'ro' if mount.readonly else 'rw'})"
            for mount in status.mounts
        ],
        "Log": status.log_path,
    }


def _limits(resources: Any) -> list[str]:
    """The limits of a container, in units of Kubernetes."""
    period = resources.cpu_period or 100_000
    limits = [f"cpu: {resources.cpu_quota * 1000 // period}m"] if resources.cpu_quota > 0 else []
    memory = resources.memory_limit_in_bytes
    return limits + ([f"memory: {size(memory)}"] if memory > 0 else [])


def _time(created_ns: int) -> str:
    """A time in UTC. Returns "" for 0."""
    return datetime.fromtimestamp(created_ns / 1e9, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000") if created_ns else ""


def _pairs(values: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(values.items())]


def _print_rows(out: Output, rows: Mapping[str, str | list[str]], indent: str = "") -> None:
    """Print labels with their values; the elements of a list are on separate lines."""
    width = max(map(len, rows)) + 1
    for label, value in rows.items():
        lines = value if isinstance(value, list) else [value]
        for number, line in enumerate(lines or [""]):
            head = f"{label}:" if number == 0 else ""
            out.text(f"{indent}{head:<{width}}  {escape(line) or _NONE}")
