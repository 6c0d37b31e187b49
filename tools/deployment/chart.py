"""The Helm chart of the bundled plugins, deploy/helm/nri-plugin; its templates are written by hand."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import typing
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any

import yaml

from nri.api.default_validator import KEYS, ValidatorConfig
from nri.config import typed
from nri.plugins import registry
from tools.deployment.kustomize import HEAD, IMAGE
from tools.deployment.readme import readme
from tools.deployment.table import HEALTH_PORT, ROOT, SOCKET_DIR, Need, semantic_version, version

CHART = "nri-plugin"
PAGE = "docs/howto/deploy.md"
Json = dict[str, Any]
PATH: Json = {"type": "string", "pattern": "^/[^.]"}
DURATION: Json = {"type": "string", "pattern": "^([0-9.]+(ms|s|m))*$"}
# The charts of nri-plugins have numbers as indices, and empty lists where Kubernetes has objects.
INDEX: Json = {"type": ["string", "integer"], "pattern": "^([0-9]{2})?$", "minimum": 0, "maximum": 99}
INDICES: Json = {"type": "string", "pattern": "^([0-9]{2}(,[0-9]{2})+)?$"}

IMAGE_VALUES = """\
image:
  # Build it with deploy/{containerfile} and push it to your registry.
  name: {image}
  tag: "" # empty: the chart's appVersion
  digest: "" # sha256:..., replaces the tag
  pullPolicy: IfNotPresent
imagePullSecrets: []
"""

VALUES = """\
# Values of the chart. needs.yaml lists the access to the node that each plugin has; no value changes it.

# The plugin's name, as in needs.yaml.
plugin: ""
{image}
nri:
  plugin:
    index: "" # place in the order of plugins, for example "35"; empty: the plugin's default
  runtime:
    # Enable NRI in the node's configuration of containerd or CRI-O before the plugin starts, and restart the runtime if
    # the configuration changed. A privileged init container with the node's root directory does it, and the whole pod
    # has hostPID: set it to false again when all nodes are configured.
    patchConfig: false
    name: "" # containerd or crio; empty: the running one
    config: # set both, for example to 10s and 5s, or neither
      pluginRegistrationTimeout: "" # how long a plugin may take to register
      pluginRequestTimeout: "" # how long a plugin may take to answer a request
# Further flags of the plugin, one item each, for example ["-verbose"].
args: []
# The plugin's configuration. It becomes a ConfigMap; changes take effect without a restart.
config: {{}}
# topology-aware and balloons: read the configuration from the custom resource of the node, and report the result in its
# status and in the node's NodeResourceTopology. Two further containers with a token do it; the plugin has no token.
# `config` becomes the resource `default`.
follow:
  enabled: false # run these containers
  # Image of these containers, built with deploy/agent.Containerfile; without a digest it gets the tag of `image`.
  image: localhost/nri-agent
# The node's label that contains its group of configuration, with `follow.enabled`.
configGroupLabel: config.nri/group

log:
  level: info # debug, info, warning, error
  format: text # or json
health:
  enabled: false # serve /readyz, and be ready only when the runtime has synchronized the plugin
  port: {port}

# The node's directory of the runtime's socket.
socketDir: {socket_dir}
# Directories of needs.yaml that are elsewhere on your nodes, by name.
hostPaths: {{}}
# Further paths of the node that the plugin may read, at the same place in its container.
readOnlyPaths: []
# The runtime's socket belongs to root by default; set these if yours belongs to another user or group.
runAsUser: 0
runAsGroup: 0
# With SELinux, a type that may connect to the runtime's socket, for example {{type: spc_t}}.
seLinuxOptions: {{}}
# Forbid all network traffic of the pod. Has no effect on a plugin in the node's network.
networkPolicy: true

podPriorityClassNodeCritical: true # set `priorityClassName`
{pod}"""

POD_VALUES = """\
priorityClassName: system-node-critical
resources:
  requests:
    cpu: {cpu}
    memory: {memory}
  limits:
    memory: {limit}
nodeSelector: {{}}
tolerations:
  - operator: Exists
affinity: {{}}
maxUnavailable: 1
podAnnotations: {{}}
podLabels: {{}}
"""

PLUGIN_VALUES = """\
# {does}
plugin: {name}
nri:
  plugin:
    index: "{index}"
"""


def files(needs: Sequence[Need]) -> dict[str, str]:
    """The chart's generated files below deploy/helm, by path."""
    chart = application(CHART, "A bundled NRI plugin on each node, as a DaemonSet; the value `plugin` selects it.")
    values, schema = chart_values(), chart_schema(needs)
    files = {
        "Chart.yaml": HEAD + chart,
        "needs.yaml": HEAD + as_yaml({need.name: access(need) for need in needs}),
        "values.yaml": HEAD + values,
        "values.schema.json": as_json(schema),
        "README.md": readme(yaml.safe_load(chart), HEAD, PAGE, values, schema, {}, plugins=needs),
        "crds/crds.yaml": HEAD + custom_resources(needs),
    }
    files |= {f"values/{need.name}.yaml": HEAD + plugin_values(need) for need in needs}
    return {f"{CHART}/{path}": text for path, text in files.items()}


def custom_resources(needs: Sequence[Need]) -> str:
    """The definitions of the plugins' custom resources."""
    kinds = {need.follows for need in needs}
    crds = yaml.safe_load_all((ROOT / "deploy/placement/crds.yaml").read_text(encoding="utf-8"))
    return "---\n".join(as_yaml(crd) for crd in crds if crd["spec"]["names"]["kind"] in kinds)


def application(name: str, description: str) -> str:
    """Chart.yaml of a chart that can be installed."""
    head = {"apiVersion": "v2", "name": name, "description": description, "type": "application"}
    return as_yaml({**head, "version": semantic_version(), "appVersion": version()})


def access(need: Need) -> Json:
    """A plugin's row of needs.yaml: its default index and its access to the node, with reasons."""
    mounts = [
        {"name": mount.name, "host": mount.host, "at": mount.at, "type": mount.type, "changes": mount.changes}
        | ({"write": True} if mount.write else {})
        | {"why": mount.why}
        for mount in need.mounts
    ]
    return {
        "indexFlag": need.args[0],
        "index": need.args[1],
        "hostNetwork": need.host_network,  # the reason, or empty
        "hostPID": need.host_pid,  # likewise
        "capabilities": [{"name": name, "why": why} for name, why in need.capabilities.items()],
        "mounts": mounts,
    } | ({"follows": need.follows, "followed": need.followed} if need.follows else {})


def chart_values() -> str:
    """values.yaml: the defaults of all plugins, with a comment for each value."""
    return VALUES.format(
        image=IMAGE_VALUES.format(containerfile="Containerfile", image=IMAGE),
        pod=POD_VALUES.format(cpu="2m", memory="24Mi", limit="128Mi"),
        port=HEALTH_PORT,
        socket_dir=SOCKET_DIR,
    )


def plugin_values(need: Need) -> str:
    """A file of values that selects the plugin, with an example of its configuration as a comment."""
    text = PLUGIN_VALUES.format(does=need.does, name=need.name, index=need.args[1])
    if need.config:
        text += _commented("Configuration, for example:", {"config": need.config})
    if need.mounts:
        text += _commented(
            "Directories of the node; name those that are elsewhere on yours:",
            {"hostPaths": {mount.name: mount.host for mount in need.mounts}},
        )
    if need.paths:
        text += _commented(f"Further paths that it may need: {need.paths}.", {"readOnlyPaths": []})
    return text


def _commented(reason: str, values: Json) -> str:
    lines = [reason, *yaml.safe_dump(values, sort_keys=False).splitlines()]
    return "".join(f"# {line}\n" for line in lines)


def chart_schema(needs: Sequence[Need]) -> Json:
    """values.schema.json: names every key, also those of the selected plugin's configuration."""
    boolean, text = {"type": "boolean"}, {"type": "string", "minLength": 1}
    timeouts = an_object(pluginRegistrationTimeout=DURATION, pluginRequestTimeout=DURATION)
    runtime = an_object(patchConfig=boolean, name={"enum": ["", "containerd", "crio"]}, config=timeouts)
    keys: Json = {
        "nri": an_object(plugin=an_object(index={"type": ["string", "integer"]}), runtime=runtime),
        "args": {"type": "array", "items": {"type": "string"}},
        "config": {"type": "object"},
        "follow": an_object(enabled=boolean, image=text),
        "configGroupLabel": text,
        "log": an_object(
            level={"enum": ["debug", "info", "warning", "error"]},
            format={"enum": ["text", "json"]},
        ),
        "health": an_object(enabled=boolean, port={"type": "integer", "minimum": 1, "maximum": 65535}),
        "socketDir": PATH,
        "hostPaths": {"type": "object"},
        "readOnlyPaths": {"type": "array", "items": PATH},
        "runAsUser": {"type": "integer", "minimum": 0},
        "runAsGroup": {"type": "integer", "minimum": 0},
        "networkPolicy": boolean,
        "podPriorityClassNodeCritical": boolean,
    }
    schema = schema_of(CHART, keys)
    properties = schema["properties"]
    schema["properties"] = {"plugin": {"enum": [need.name for need in needs]}, **properties}
    quantity = {"type": ["string", "number"]}
    properties["resources"]["properties"] |= {"cpu": quantity, "memory": quantity}
    for key in ("affinity", "nodeSelector"):
        properties[key] |= {"type": ["object", "array"], "maxItems": 0}
    schema["allOf"] = [_plugin_schema(need) for need in needs]
    return schema


def _plugin_schema(need: Need) -> Json:
    """What the schema adds if `plugin` is this one."""
    index = INDEX if need.indexed else INDICES
    keys: Json = {
        "nri": {"properties": {"plugin": {"properties": {"index": index}}}},
        "config": config_schema(need.name),
        "hostPaths": an_object(**{mount.name: PATH for mount in need.mounts}),
    }
    if not need.follows:
        keys["follow"] = {"properties": {"enabled": {"const": False}}}
    condition = {"properties": {"plugin": {"const": need.name}}}
    return {"if": condition, "then": {"properties": keys}}


def schema_of(title: str, keys: Json) -> Json:
    """The schema of values: its own keys, and those of every chart about the image and the pod."""
    properties: Json = {
        "image": an_object(
            name={"type": "string", "minLength": 1},
            tag={"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"},
            digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        ),
        "imagePullSecrets": {"type": "array", "items": an_object(name={"type": "string"})},
        **keys,
        "seLinuxOptions": an_object(**{key: {"type": "string"} for key in ("user", "role", "type", "level")}),
        "priorityClassName": {"type": "string"},
        "resources": an_object(requests=_map("string", "number"), limits=_map("string", "number")),
        "nodeSelector": _map("string"),
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "affinity": {"type": "object"},
        "maxUnavailable": {"type": ["integer", "string"], "minimum": 1, "pattern": "^[0-9]{1,3}%$"},
        "podAnnotations": _map("string"),
        "podLabels": _map("string"),
        "global": {"type": "object"},  # Helm itself puts it there
    }
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **an_object(**properties)}


def an_object(**properties: Json) -> Json:
    """The schema of an object with these keys and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _map(*types: str) -> Json:
    return {"type": "object", "additionalProperties": {"type": list(types)}}


def as_yaml(value: Json) -> str:
    """A generated file's text."""
    return yaml.safe_dump(value, sort_keys=False, width=118)


def as_json(value: Any, indent: str = "") -> str:
    """JSON with one line for each object or list that fits into 118 columns."""
    line = json.dumps(value)
    if (len(indent) + len(line) <= 118 and indent) or not isinstance(value, dict | list):
        return line
    below = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {as_json(part, below)}" for key, part in value.items()]
    else:
        parts = [as_json(part, below) for part in value]
    text = f",\n{below}".join(parts)
    brackets = "{}" if isinstance(value, dict) else "[]"
    return f"{brackets[0]}\n{below}{text}\n{indent}{brackets[1]}" + ("" if indent else "\n")


WORDS = {str: "string", bool: "boolean", int: "integer", float: "number"}
LISTS = (list, tuple, set, frozenset)


def config_schema(name: str) -> Json:
    """The schema of a plugin's configuration; it allows no key for a plugin that has none."""
    # Not the installed entry points: an environment may be older than the tree.
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][registry.GROUP]
    if name not in entries:
        raise LookupError(
            f"{name} is in deploy/plugins.yaml, but not in the entry points of pyproject.toml; add it there"
        )
    entry = EntryPoint(name, entries[name], registry.GROUP)
    fields = _fields(name, getattr(registry.load(entry), "Config", None))
    if not fields:
        return {"type": "object", "maxProperties": 0}
    properties = {key: _type(annotation) for key, annotation in fields.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _fields(name: str, cls: type | None) -> dict[str, Any]:
    if cls is not None:
        return dict(typed.fields_of(cls))
    if name == "default-validator":
        types = {field.name: str(field.type) for field in dataclasses.fields(ValidatorConfig)}
        words = {"bool": bool, "str": str}
        return {key: words.get(types[attribute], list[str]) for key, attribute in KEYS.items()}
    return {}


def _type(annotation: Any) -> Json:
    kind, items = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind in LISTS:
        return {"type": "array", "items": _type(items[0])}
    if kind is typing.Literal:
        return {"enum": list(items)}
    if isinstance(kind, type) and kind.__module__.startswith("nri.plugins.") and not hasattr(kind, "parse"):
        fields = typed.fields_of(kind)
        schema: Json = {"type": "object", "additionalProperties": False}
        required = [key for key in fields if not hasattr(kind, key)]
        return (
            schema
            | ({"required": required} if required else {})
            | {"properties": {key: _type(inner) for key, inner in fields.items()}}
        )
    return {"type": WORDS[kind]} if kind in WORDS else {}
