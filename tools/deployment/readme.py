"""The README of a Helm chart: how to install it, and a table of its values.

The table has a row for each key of the schema. Its meaning comes from the comment in values.yaml, from the owner of the
setting, or from `COMMON_MEANINGS`; a key without a meaning is an error.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import yaml

from tools.deployment.table import Need

Json = dict[str, Any]

#: Meanings of the values that several charts have.
COMMON_MEANINGS = {
    "image.tag": "tag of the image; empty: the chart's appVersion",
    "image.pullPolicy": "when a node pulls the image",
    "imagePullSecrets": "names of the registry's secrets",
    "hostPaths": "directories of `needs.yaml` that are elsewhere on your nodes, by name",
    "priorityClassName": "priority class of the pods; by default they are evicted last",
    "resources": "CPU and memory of the container",
    "nodeSelector": "labels of the nodes to run on; empty: all nodes",
    "tolerations": "tolerated taints; by default all",
    "affinity": "affinity, as in a pod's spec",
    "maxUnavailable": "how many nodes may be without the pod during an update: a number or a percentage",
    "podAnnotations": "further annotations of the pods",
    "podLabels": "further labels of the pods",
    "runAsUser": "user ID of the plugin; the runtime's socket belongs to root by default",
    "runAsGroup": "group ID of the plugin",
    "health.port": "port of `/readyz`",
    "log.format": "format of log lines",
    "log.level": "lowest level that is logged",
}
#: Keys that have one row for everything below them.
SINGLE_ROWS = ("hostPaths", "resources", "seLinuxOptions")
#: A longer list of choices is not shown.
MAX_CHOICES = 8
#: Helm adds this key; it is not a choice.
HELM_KEYS = ("global",)

TEXT = """\
<!-- {head} -->
# {name}

{description}.

How to build the image and everything else: [{page}](../../../{page}).

```console
$ helm install -n kube-system {release} deploy/helm/{name} {settings}
```
{plugins}
`needs.yaml` lists the access to the node, with reasons; no value changes it. These are the values; any other key is an
error:

| value | type | default | meaning |
|---|---|---|---|
{rows}
"""

PLUGINS = """
The value `plugin` selects one of these; `values/NAME.yaml` is a start for your own values:

| plugin | what it does |
|---|---|
{rows}

These values mean the same as in the charts of nri-plugins: `image.name`, `image.tag`, `image.pullPolicy`, `nri`,
`configGroupLabel`, `podPriorityClassNodeCritical`, `resources.cpu` and `resources.memory` (requests, without limits).
Other keys of those charts, for example `initContainerImage`, have no counterpart here and are errors. The chart defines
the custom resources of topology-aware and balloons, whichever plugin you install; `--skip-crds` leaves them out.
"""


def readme(
    chart: Json,
    head: str,
    page: str,
    values: str,
    schema: Json,
    settings: Mapping[str, tuple[str, str]],
    plugins: Sequence[Need] = (),
) -> str:
    """The text of a chart's README.

    Args:
        chart: Chart.yaml.
        head: the line that names the source of the file.
        page: the page of the documentation, relative to the top of the tree.
        values: values.yaml.
        schema: values.schema.json.
        settings: default and meaning of keys that values.yaml does not explain; keys below them have no row.
        plugins: the plugins that the chart can install, if there are several.

    Raises:
        LookupError: a key has no meaning.
    """
    name, defaults = chart["name"], yaml.safe_load(values)
    meanings = comments(values) | COMMON_MEANINGS | {path: meaning for path, (_, meaning) in settings.items()}
    rows = []
    for path, key_schema in leaves(schema, {*SINGLE_ROWS, *settings}):
        if path not in meanings:
            raise LookupError(f"{name}: the value {path} has no meaning. Add a comment to values.yaml.")
        default = _default(defaults, path) or settings.get(path, ("",))[0]
        shown = f"`{_cell(default)}`" if default else "-"
        rows.append(f"| `{path}` | {_type(key_schema)} | {shown} | {_cell(meanings[path])} |")
    image = str(defaults["image"]["name"]).rpartition("/")[2]
    selection = "--set plugin=device-injector " if plugins else ""
    return TEXT.format(
        head=head.strip().removeprefix("# "),
        name=name,
        release="device-injector" if plugins else name,
        description=chart["description"].removesuffix("."),
        page=page,
        settings=f"{selection}--set image.name=registry.example/{image}",
        plugins=PLUGINS.format(rows="\n".join(map(_plugin_row, plugins))) if plugins else "",
        rows="\n".join(rows),
    )


def _plugin_row(need: Need) -> str:
    page = f"../../../src/nri/plugins/{need.name.replace('-', '_')}/README.md"
    return f"| [{need.name}]({page}) | {_cell(need.does)} |"


def comments(values: str) -> dict[str, str]:
    """The comments of a values.yaml by key: those above a key, or behind it, without examples."""
    texts: dict[str, str] = {}
    above: list[str] = []
    parents: list[tuple[int, str]] = []
    for line in values.splitlines():
        bare = line.strip()
        if bare.startswith("#"):
            above.append(bare.removeprefix("#").strip())
            continue
        key, colon, value = bare.partition(":")
        if not colon or bare.startswith("- "):
            above = []
            continue
        depth = len(line) - len(line.lstrip())
        parents = [(parent_depth, name) for parent_depth, name in parents if parent_depth < depth]
        text = value.partition(" # ")[2] or " ".join(above)
        if text:
            texts[".".join([*(name for _, name in parents), key])] = text.partition(" For example:")[0]
        parents.append((depth, key))
        above = []
    return texts


def leaves(schema: Json, single_rows: Collection[str], path: str = "") -> Iterator[tuple[str, Json]]:
    """The keys of a schema that a table names, with their schemas: those without keys below, and `single_rows`."""
    for key, key_schema in schema["properties"].items():
        if not path and key in HELM_KEYS:
            continue
        key_path = f"{path}.{key}" if path else key
        if "properties" in key_schema and key_path not in single_rows:
            yield from leaves(key_schema, single_rows, key_path)
        else:
            yield key_path, key_schema


def _default(values: Any, path: str) -> str:
    for key in path.split("."):
        if not isinstance(values, dict) or key not in values:
            return ""
        values = values[key]
    return json.dumps(values, ensure_ascii=False) if values not in ("", [], {}) else ""


def _type(schema: Json) -> str:
    if "const" in schema:
        return f"only {json.dumps(schema['const'])}"
    if len(schema.get("enum", ())) > MAX_CHOICES:
        return "string"
    if "enum" in schema:
        return " or ".join(f"`{choice}`" for choice in schema["enum"])
    type_ = schema.get("type", "anything")
    if isinstance(type_, list):
        return " or ".join(type_)
    if "properties" in schema:
        return f"{type_} with the keys {', '.join(f'`{key}`' for key in schema['properties'])}"
    if type_ == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(type_)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
