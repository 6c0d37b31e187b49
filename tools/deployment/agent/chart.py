"""The Helm chart of the agent; its templates (deploy/helm/agent/templates) are written by hand.

needs.yaml has the access that each choice opens, which no value changes. The schema names every key of values.yaml,
the agent's settings below `config` included, so that a misspelt one is an error.
"""

from __future__ import annotations

import dataclasses
import textwrap
import typing
from pathlib import Path
from typing import Any

import yaml

from nri.agent.settings import AGENT_SETTINGS, AgentSettings
from nri.config import OneOf
from nri.config.duration import DURATION
from nri.config.typed import fields_of
from tools.deployment.agent.kustomize import HEAD
from tools.deployment.agent.table import (
    CONFIG_DIR,
    DEFAULTS,
    FIXED,
    HEALTH_PORT,
    IMAGE,
    NAME,
    SOCKET_DIR,
    Row,
    read,
    roles,
)
from tools.deployment.chart import IMAGE_VALUES, PATH, POD_VALUES, an_object, application, as_json, as_yaml, schema_of
from tools.deployment.readme import readme

Json = dict[str, Any]

VALUES = """\
# Values of the chart. needs.yaml lists the access to the node that each choice opens.
{of_image}
# The agent's settings, see nri agent keys. An enabled hook opens the access that it needs.
config:
{config}
# Anolis OS or Alibaba Cloud Linux: enable group identities in the kernel.
anolis: false
# Further flags, one item each, for example ["-v"].
args: []

# Directories of needs.yaml that are elsewhere on your nodes, for example {{nri-socket: /run/other}}.
hostPaths: {{}}

# Create roles and a service account in the apiserver; false if you create them yourself, with the same names.
rbac: true
# With SELinux, a type that may connect to the runtime's socket and write cgroups, for example {{type: spc_t}}.
seLinuxOptions: {{}}

{of_pod}"""


def files() -> dict[str, str]:
    """The chart's files below deploy/helm, by path."""
    chart = application("agent", "Koordinator's QoS rules for the pods of each node.")
    settings = {f"config.{row.key}": (row.default, row.meaning) for row in AGENT_SETTINGS.known_keys()}
    files_by_path = {
        "Chart.yaml": HEAD + chart,
        "README.md": readme(yaml.safe_load(chart), HEAD, "docs/howto/agent.md", values(), schema(), settings),
        "needs.yaml": HEAD + needs(),
        "values.yaml": HEAD + values(),
        "values.schema.json": as_json(schema()),
    }
    return {f"agent/{path}": text for path, text in files_by_path.items()}


def values() -> str:
    """values.yaml, with a line on each choice."""
    return VALUES.format(
        of_image=IMAGE_VALUES.format(containerfile="agent.Containerfile", image=IMAGE),
        of_pod=POD_VALUES.format(cpu="10m", memory="64Mi", limit="256Mi"),
        config=textwrap.indent(yaml.safe_dump(DEFAULTS, sort_keys=False), "  "),
    )


def needs() -> str:
    """needs.yaml: what each choice opens, with the reasons, and the roles of the apiserver."""
    return as_yaml(
        {
            "name": NAME,
            "paths": {"config": CONFIG_DIR, "socket": SOCKET_DIR},
            "port": HEALTH_PORT,
            "fixed": FIXED,
            "rows": [_row(row) for row in read()],
            "roles": {role["metadata"]["name"]: role["rules"] for role in roles() if role["kind"] == "ClusterRole"},
        }
    )


def schema() -> Json:
    """values.schema.json: every key by name."""
    keys: Json = {
        "config": settings_schema(),
        "anolis": {"type": "boolean"},
        "args": {"type": "array", "items": {"type": "string"}},
        "hostPaths": an_object(**{mount.name: PATH for row in read() for mount in row.mounts}),
        "rbac": {"type": "boolean"},
    }
    return schema_of("agent", keys)


def settings_schema() -> Json:
    """The agent's settings, without what a DaemonSet has to say itself, and without modes that it cannot have."""
    schema = _type(AgentSettings)
    for key in ("root", "socket", "http"):
        del schema["properties"][key]
    modes = schema["properties"]["modes"]["items"]["enum"]
    for row in read():
        if row.unit_only and row.choice == "mode":
            modes.remove(row.value)
        elif row.unit_only and row.choice == "gate":
            schema["properties"]["gates"]["properties"][row.value] = {"const": False}
    return schema


def _type(annotation: Any) -> Json:
    """The schema of a type of `nri.agent.settings.values`."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return an_object(**{name: _type(kind) for name, kind in fields_of(annotation).items()})
    if DURATION in getattr(annotation, "__metadata__", ()):
        return {"type": ["string", "number"]}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin is tuple:
        return {"type": "array", "items": _type(args[0])}
    metadata = getattr(annotation, "__metadata__", ())
    if choices := next((constraint.choices for constraint in metadata if isinstance(constraint, OneOf)), None):
        return {"enum": list(choices())}
    if origin is not None:  # a table by names that are known
        return an_object(**{name: _type(args[1]) for name in _type(args[0])["enum"]})
    return {"type": {bool: "boolean", int: "integer", str: "string", Path: "string"}[annotation]}


def _row(row: Row) -> Json:
    mounts = [
        {"name": one.name, "host": one.host, "at": one.at, "type": one.type, "write": one.write, "why": one.why}
        for one in row.mounts
    ]
    return {
        "choice": row.choice,
        "value": row.value,
        "why": row.why,
        "mounts": mounts,
        "capabilities": [{"name": name, "why": why} for name, why in row.capabilities.items()],
        "hostPID": row.host_pid,
        "hostNetwork": row.host_network,
        "role": row.rbac,
    }
