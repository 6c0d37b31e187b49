"""The Helm chart of a plugin over the library chart `nri-plugin` (deploy/helm/nri-plugin, written by hand).

Rules: what the plugin needs of the node is needs.yaml, which no value changes; what an operator may choose is
values.yaml, and its schema names every key, so that a misspelt one is refused. Next: `unit`.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from typing import Any

import yaml

from nri.api.default_validator import KEYS, ValidatorConfig
from nri.config import typed
from nri.plugins import registry as registered
from tools.deployment.kustomize import HEAD, IMAGE
from tools.deployment.readme import readme
from tools.deployment.table import HEALTH_PORT, ROOT, SOCKET_DIR, Need, semantic_version, version

LIBRARY = "nri-plugin"
PAGE = "docs/howto/deploy.md"
Json = dict[str, Any]
PATH: Json = {"type": "string", "pattern": "^/[^.]"}
DURATION: Json = {"type": "string", "pattern": "^([0-9.]+(ms|s|m))*$"}

IMAGE_VALUES = """\
image:
  # Build it with deploy/{containerfile}, push it to your registry, and name it here.
  repository: {image}
  tag: "" # the chart's appVersion
  digest: "" # sha256:..., in place of the tag
  pullPolicy: IfNotPresent
imagePullSecrets: []
"""

VALUES = """\
# Values for an operator to choose. needs.yaml says which access to the node the plugin has.
{of_image}
{place}
# Further flags, word by word, for example ["-verbose"].
args: []
{config}
config: {{}}
{follow}
log:
  level: info # debug, info, warning, error
  format: text # or json
health:
  enabled: false # serve /readyz, and be ready only when the runtime has synchronized the plugin
  port: {port}

# Turn NRI on in the node's configuration of containerd or CRI-O first, and restart that runtime if something changed:
# a privileged init container with the node's root. Both timeouts, such as 10s and 5s, or neither.
patchRuntimeConfig:
  enabled: false # do it; the whole pod has hostPID then, so switch it off again once all nodes have it
  runtime: "" # containerd or crio; empty: the one that runs
  registrationTimeout: "" # how long a plugin may take to register
  requestTimeout: "" # how long a plugin may take to answer
# The node's folder of the runtime's socket.
socketDir: {socket_dir}
{host_paths}# Further paths of the node that it must see, read-only, at the same places{paths}
readOnlyPaths: []
# The socket belongs to root. Where yours belongs to another user or group, name them.
runAsUser: 0
runAsGroup: 0
# With SELinux, a type that may connect to the runtime's socket, for example {{type: spc_t}}.
seLinuxOptions: {{}}
# Let nothing talk to it, and it to nothing: all it needs is the socket.{no_policy}
networkPolicy: true

{of_pod}"""

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

FOLLOW = """\
# Let it have the custom resource of its node, and write back whether it took it, and the node's NodeResourceTopology:
# two containers beside it do that, which have a token; the plugin has none. `config` then is the resource `default`.
follow:
  enabled: false # have these beside it
  # What these run: built with deploy/agent.Containerfile; without a digest of its own it has the tag of `image`.
  image: localhost/nri-agent
  groupLabel: config.nri/group # the node's label that says of which group it is
"""

HOST_PATHS = """\
# Where the node has what needs.yaml names, if elsewhere:
#   {of}
hostPaths: {{}}
"""


def files(need: Need) -> dict[str, str]:
    """The chart's files below deploy/helm, by path."""
    made = {
        "Chart.yaml": HEAD + chart(need),
        "needs.yaml": HEAD + needs(need),
        "values.yaml": HEAD + values(need),
        "values.schema.json": json.dumps(schema(need), indent=2) + "\n",
        "README.md": readme(yaml.safe_load(chart(need)), HEAD, PAGE, values(need), schema(need), _meanings(need.name)),
        "templates/plugin.yaml": '{{ include "nri-plugin.all" . }}\n',
        "templates/NOTES.txt": '{{ include "nri-plugin.notes" . }}\n',
    }
    if need.follows:
        made["crds/crd.yaml"] = HEAD + _resource(need)
    return {f"{need.name}/{path}": text for path, text in made.items()}


def _resource(need: Need) -> str:
    """The definition of its custom resource."""
    every = yaml.safe_load_all((ROOT / "deploy/placement/crds.yaml").read_text(encoding="utf-8"))
    return next(as_yaml(each) for each in every if each["spec"]["names"]["kind"] == need.follows)


def library() -> dict[str, str]:
    """The files of the library chart that have a version in them."""
    text = as_yaml(
        {
            "apiVersion": "v2",
            "name": LIBRARY,
            "description": "The common part of the charts of all bundled NRI plugins.",
            "type": "library",
            "version": semantic_version(),
        }
    )
    return {f"{LIBRARY}/Chart.yaml": HEAD + text}


def chart(need: Need) -> str:
    """Chart.yaml; the library lies in charts/ as a link, so that nothing has to be fetched."""
    library = {"name": LIBRARY, "version": semantic_version(), "repository": f"file://../{LIBRARY}"}
    return application(need.name, need.does, dependencies=[library])


def application(name: str, does: str, **more: Any) -> str:
    """Chart.yaml of a chart that can be installed."""
    head = {"apiVersion": "v2", "name": name, "description": does, "type": "application"}
    return as_yaml({**head, "version": semantic_version(), "appVersion": version(), **more})


def needs(need: Need) -> str:
    """needs.yaml: what the plugin needs of a node, with the reasons."""
    mounts = [
        {"name": one.name, "host": one.host, "at": one.at, "type": one.type, "changes": one.changes}
        | ({"write": True} if one.write else {})
        | {"why": one.why}
        for one in need.mounts
    ]
    return as_yaml(
        {
            "plugin": need.name,
            "hostNetwork": need.host_network,  # the reason, or nothing
            "hostPID": need.host_pid,  # likewise
            "capabilities": [{"name": name, "why": why} for name, why in need.capabilities.items()],
            "mounts": mounts,
        }
        | ({"follows": need.follows, "followed": need.followed} if need.follows else {})
    )


def values(need: Need) -> str:
    """values.yaml, with a line on each choice."""
    place = "# Its place in the order of plugins.\n" + (
        f'idx: "{need.args[1]}"\n' if need.indexed else f'indices: "{need.args[1]}"\n'
    )
    config = "# It has no configuration."
    if config_schema(need.name).get("maxProperties") != 0:
        config = "# Its configuration; it becomes a ConfigMap, and changes of it take effect without a restart."
    if need.config:
        config += " For example:" + "".join(f"\n#   {line}" for line in yaml.safe_dump(need.config).splitlines())
    return VALUES.format(
        of_image=IMAGE_VALUES.format(containerfile="Containerfile", image=IMAGE),
        of_pod=POD_VALUES.format(cpu="2m", memory="24Mi", limit="128Mi"),
        place=place.rstrip("\n"),
        config=config,
        follow=FOLLOW if need.follows else "",
        port=HEALTH_PORT,
        socket_dir=SOCKET_DIR,
        host_paths=HOST_PATHS.format(of="\n#   ".join(f"{one.name}: {one.host}" for one in need.mounts))
        if need.mounts
        else "",
        paths=f", {need.paths}." if need.paths else ".",
        no_policy=" It is in the node's network, where this means nothing." if need.host_network else "",
    )


def schema(need: Need) -> Json:
    """values.schema.json: every key by name."""
    place: Json = {"idx": {"type": ["string", "integer"], "pattern": "^[0-9]{2}$", "minimum": 10, "maximum": 99}}
    if not need.indexed:
        place = {"indices": {"type": "string", "pattern": "^[0-9]{2}(,[0-9]{2})+$"}}
    if need.mounts:
        place["hostPaths"] = an_object(**{mount.name: PATH for mount in need.mounts})
    if need.follows:
        text = {"type": "string", "minLength": 1}
        place["follow"] = an_object(enabled={"type": "boolean"}, image=text, groupLabel=text)
    own: Json = {
        **place,
        "args": {"type": "array", "items": {"type": "string"}},
        "config": config_schema(need.name),
        "log": an_object(
            level={"enum": ["debug", "info", "warning", "error"]},
            format={"enum": ["text", "json"]},
        ),
        "health": an_object(enabled={"type": "boolean"}, port={"type": "integer", "minimum": 1, "maximum": 65535}),
        "patchRuntimeConfig": an_object(
            enabled={"type": "boolean"},
            runtime={"enum": ["", "containerd", "crio"]},
            registrationTimeout=DURATION,
            requestTimeout=DURATION,
        ),
        "socketDir": PATH,
        "readOnlyPaths": {"type": "array", "items": PATH},
        "runAsUser": {"type": "integer", "minimum": 0},
        "runAsGroup": {"type": "integer", "minimum": 0},
        "networkPolicy": {"type": "boolean"},
        LIBRARY: {"type": "object"},  # Helm itself puts it there
    }
    return schema_of(need.name, own)


def schema_of(title: str, own: Json) -> Json:
    """The schema of values: its own keys, and those of every chart about the image and the pod."""
    properties: Json = {
        "image": an_object(
            repository={"type": "string", "minLength": 1},
            tag={"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"},
            digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        ),
        "imagePullSecrets": {"type": "array", "items": an_object(name={"type": "string"})},
        **own,
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


WORDS = {str: "string", bool: "boolean", int: "integer", float: "number"}
LISTS = (list, tuple, set, frozenset)


def config_schema(name: str) -> Json:
    """The schema of a plugin's configuration; it allows no key for a plugin that has none."""
    entry = registered.find(name)
    if entry is None:
        raise LookupError(f"{name} is in deploy/plugins.yaml and not registered; if it is in pyproject.toml: make venv")
    fields = _fields(name, getattr(registered.load(entry), "Config", None))
    if not fields:
        return {"type": "object", "maxProperties": 0}
    properties = {key: _type(annotation) for key, annotation in fields.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _meanings(name: str) -> dict[str, tuple[str, str]]:
    """No default, and where it stands what the keys of a plugin's configuration mean."""
    page = f"src/nri/plugins/{name.replace('-', '_')}/README.md"
    return {
        f"config.{key}": ("", f"see [its page](../../../{page})") for key in config_schema(name).get("properties", {})
    }


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
    return {"type": WORDS[kind]} if kind in WORDS else {}
