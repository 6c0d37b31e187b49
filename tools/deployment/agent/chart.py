"""The Helm chart of the agent; its templates (deploy/helm/agent/templates) are written by hand.

Rules: what each choice opens is needs.yaml, which no value changes; what an operator may choose is values.yaml, the
agent's own settings below `config` included, and its schema names every key, so that a misspelt one is refused.
Next: `unit`.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import yaml

from nri.agent.settings import Settings
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
from tools.deployment.chart import PATH, _map, _object, _yaml
from tools.deployment.table import semantic_version, version

Json = dict[str, Any]

VALUES = """\
# What an operator may choose. What each choice opens of a node is in needs.yaml.
image:
  # Build it with deploy/agent.Containerfile, push it to your registry, and name it here.
  repository: {image}
  tag: "" # the chart's appVersion
  digest: "" # sha256:..., in place of the tag
  pullPolicy: IfNotPresent
imagePullSecrets: []

# The agent's settings: nri agent keys explains them. A hook that is switched on opens what it needs.
config:
{config}
# Anolis OS or Alibaba Cloud Linux: group identities are switched on in the kernel.
anolis: false
# Further flags, word by word, for example ["-v"].
args: []

# Where the node has what needs.yaml names, if elsewhere, for example {{nri-socket: /run/other}}.
hostPaths: {{}}

# A role and an account of their own in the apiserver; false if you make them yourself, by these names.
rbac: true
# With SELinux, a type that may connect to the runtime's socket and write cgroups, for example {{type: spc_t}}.
seLinuxOptions: {{}}

priorityClassName: system-node-critical
resources:
  requests:
    cpu: 10m
    memory: 64Mi
  limits:
    memory: 256Mi
nodeSelector: {{}}
tolerations:
  - operator: Exists
affinity: {{}}
maxUnavailable: 1
podAnnotations: {{}}
podLabels: {{}}
"""


def files() -> dict[str, str]:
    """The chart's files below deploy/helm, by path."""
    config = yaml.safe_dump(DEFAULTS, sort_keys=False)
    made = {
        "Chart.yaml": HEAD + chart(),
        "needs.yaml": HEAD + needs(),
        "values.yaml": HEAD + VALUES.format(image=IMAGE, config="".join(f"  {each}\n" for each in config.splitlines())),
        "values.schema.json": json.dumps(schema(), indent=2) + "\n",
    }
    return {f"agent/{path}": text for path, text in made.items()}


def chart() -> str:
    """Chart.yaml."""
    return _yaml(
        {
            "apiVersion": "v2",
            "name": "agent",
            "description": "Koordinator's QoS rules for the pods of each node.",
            "type": "application",
            "version": semantic_version(),
            "appVersion": version(),
        }
    )


def needs() -> str:
    """needs.yaml: what each choice opens, with the reasons, and the roles of the apiserver."""
    return _yaml(
        {
            "name": NAME,
            "paths": {"config": CONFIG_DIR, "socket": SOCKET_DIR},
            "port": HEALTH_PORT,
            "fixed": FIXED,
            "rows": [_row(row) for row in read()],
            "roles": {each["metadata"]["name"]: each["rules"] for each in roles() if each["kind"] == "ClusterRole"},
        }
    )


def schema() -> Json:
    """values.schema.json: every key by name."""
    properties: Json = {
        "image": _object(
            repository={"type": "string", "minLength": 1},
            tag={"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"},
            digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        ),
        "imagePullSecrets": {"type": "array", "items": _object(name={"type": "string"})},
        "config": settings_schema(),
        "anolis": {"type": "boolean"},
        "args": {"type": "array", "items": {"type": "string"}},
        "hostPaths": _object(**{mount.name: PATH for row in read() for mount in row.mounts}),
        "rbac": {"type": "boolean"},
        "seLinuxOptions": _object(**{key: {"type": "string"} for key in ("user", "role", "type", "level")}),
        "priorityClassName": {"type": "string"},
        "resources": _object(requests=_map("string", "number"), limits=_map("string", "number")),
        "nodeSelector": _map("string"),
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "affinity": {"type": "object"},
        "maxUnavailable": {"type": ["integer", "string"], "minimum": 1, "pattern": "^[0-9]{1,3}%$"},
        "podAnnotations": _map("string"),
        "podLabels": _map("string"),
        "global": {"type": "object"},  # Helm itself puts it there
    }
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "agent", **_object(**properties)}


def settings_schema() -> Json:
    """The agent's settings, without what a DaemonSet has to say itself, and without modes that it cannot have."""
    found = _type(Settings)
    for key in ("root", "socket", "http"):
        del found["properties"][key]
    modes = found["properties"]["modes"]["items"]["enum"]
    for row in read():
        if row.unit_only and row.choice == "mode":
            modes.remove(row.value)
        elif row.unit_only and row.choice == "gate":
            found["properties"]["gates"]["properties"][row.value] = {"const": False}
    return found


def _type(annotation: Any) -> Json:
    """The schema of a type of `nri.agent.settings.values`."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _object(**{name: _type(kind) for name, kind in fields_of(annotation).items()})
    if DURATION in getattr(annotation, "__metadata__", ()):
        return {"type": ["string", "number"]}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin is tuple:
        return {"type": "array", "items": _type(args[0])}
    if origin is not None:  # a table by names that are known
        return _object(**{name: _type(args[1]) for name in typing.get_args(args[0])})
    return {"type": {bool: "boolean", int: "integer", str: "string", Path: "string"}[annotation]}


def _row(row: Row) -> Json:
    mounts = [
        {"name": one.name, "host": one.host, "at": one.path, "type": one.type, "write": one.write, "why": one.why}
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
