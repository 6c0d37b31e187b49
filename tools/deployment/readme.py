"""The README of a Helm chart: how to install it, and a table of its values.

Rules: a row for each key that the schema names, with its type from there, its default from values.yaml, and its meaning
from the comment there, from who has the setting, or, of what every pod has, from `OF_PODS`; a key without a meaning is
an error. Next: `chart`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import yaml

Json = dict[str, Any]

#: What the charts have of every pod, in words of their own.
OF_PODS = {
    "image.tag": "the image's tag; empty: the chart's appVersion",
    "image.pullPolicy": "when a node pulls the image",
    "imagePullSecrets": "secrets of the registry, each with its name",
    "hostPaths": "where the node has what `needs.yaml` names, if elsewhere",
    "priorityClassName": "who has to go when a node is full: this one last",
    "resources": "CPU and memory of the pod's container",
    "nodeSelector": "labels of the nodes that it runs on; empty: all",
    "tolerations": "taints of nodes that do not keep it away; by default none does",
    "affinity": "nodes that it prefers, as in a pod's spec",
    "maxUnavailable": "how many nodes are without it at a time during an update, as a number or in percent",
    "podAnnotations": "further annotations of its pods",
    "podLabels": "further labels of its pods",
    "runAsGroup": "the group that it runs as",
    "runAsUser": "the user that it runs as; the runtime's socket is root's, if nobody has changed that",
    "health.port": "the port of that, in the pod's network",
    "log.format": "how log lines are written",
    "log.level": "what is logged",
}
#: Keys that a table has as one, whatever is below them.
WHOLE = ("hostPaths", "resources", "seLinuxOptions")
#: Helm itself puts these there.
NO_CHOICE = ("global", "nri-plugin")

TEXT = """\
<!-- {head} -->
# {name}

{does}: on each node, as a DaemonSet.

How to build the image, and all else about it: [{page}](../../../{page}).

```console
$ helm install -n kube-system {name} deploy/helm/{name} --set image.repository=registry.example/{image}
```

`needs.yaml` says what it may see and do on a node, with the reasons; no value changes that. These can be chosen; a key
that is not here is refused:

| value | type | default | meaning |
|---|---|---|---|
{rows}
"""


def readme(chart: Json, head: str, page: str, values: str, schema: Json, own: Mapping[str, tuple[str, str]]) -> str:
    """The text for a chart.

    Args:
        chart: its Chart.yaml.
        head: the line that says what it is made from.
        page: the page with everything else, from the top of the tree.
        own: default and meaning of each key that values.yaml does not explain; what is below such a key is one of it.

    Raises:
        LookupError: nothing says what a key means.
    """
    name, defaults = chart["name"], yaml.safe_load(values)
    meanings = comments(values) | OF_PODS | {path: meaning for path, (_, meaning) in own.items()}
    rows = []
    for path, kind in leaves(schema, {*WHOLE, *own}):
        if path not in meanings:
            raise LookupError(f"{name}: nothing says what the value {path} means")
        default = _default(defaults, path) or own.get(path, ("",))[0]
        shown = f"`{_cell(default)}`" if default else "-"
        rows.append(f"| `{path}` | {_type(kind)} | {shown} | {_cell(meanings[path])} |")
    return TEXT.format(
        head=head.strip().removeprefix("# "),
        name=name,
        does=chart["description"].removesuffix("."),
        page=page,
        image=str(defaults["image"]["repository"]).rpartition("/")[2],
        rows="\n".join(rows),
    )


def comments(values: str) -> dict[str, str]:
    """What the comments of a values.yaml say of its keys: those above a key, or behind it. Examples are left out."""
    found: dict[str, str] = {}
    above: list[str] = []
    parents: list[tuple[int, str]] = []
    for line in values.splitlines():
        bare = line.strip()
        if bare.startswith("#"):
            above.append(bare.removeprefix("#").strip())
            continue
        key, colon, rest = bare.partition(":")
        if not colon or bare.startswith("- "):
            above = []
            continue
        depth = len(line) - len(line.lstrip())
        parents = [(each, name) for each, name in parents if each < depth]
        text = rest.partition(" # ")[2] or " ".join(above)
        if text:
            found[".".join([*(name for _, name in parents), key])] = text.partition(" For example:")[0]
        parents.append((depth, key))
        above = []
    return found


def leaves(schema: Json, whole: Collection[str], path: str = "") -> Iterator[tuple[str, Json]]:
    """The keys that a table names, with their schemas, in its order: those without keys below, or that are `whole`."""
    for key, kind in schema["properties"].items():
        if not path and key in NO_CHOICE:
            continue
        below = f"{path}.{key}" if path else key
        if "properties" in kind and below not in whole:
            yield from leaves(kind, whole, below)
        elif kind.get("maxProperties") != 0:
            yield below, kind


def _default(values: Any, path: str) -> str:
    for key in path.split("."):
        if not isinstance(values, dict) or key not in values:
            return ""
        values = values[key]
    return json.dumps(values, ensure_ascii=False) if values not in ("", [], {}) else ""


def _type(kind: Json) -> str:
    if "const" in kind:
        return f"{json.dumps(kind['const'])} alone"
    if "enum" in kind:
        return " or ".join(f"`{each}`" for each in kind["enum"])
    found = kind.get("type", "anything")
    if "properties" in kind:
        return f"{found} with the keys {', '.join(f'`{each}`' for each in kind['properties'])}"
    if found == "array":
        return f"list of {_type(kind.get('items', {}))}"
    return " or ".join(found) if isinstance(found, list) else str(found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
