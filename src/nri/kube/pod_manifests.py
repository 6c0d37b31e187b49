"""Read the pods of manifests: Pods, and the pod templates of other objects.

All commands that read pod manifests use this module. Keys and types are checked as in Kubernetes: a value of a wrong
type is an error, and an unknown key is a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.config.key_path import path_text
from nri.errors import ConfigError
from nri.kube import kubelet, quantity
from nri.kube.api_fields import fields
from nri.kube.document import objects
from nri.text import cut, nearest, plain

if TYPE_CHECKING:
    from nri.config.key_path import Path
    from nri.config.source import Source
    from nri.kube.document import Document

#: Limit for the pods of one file.
_MAX_PODS = 5000
#: Limit for the containers of one pod.
_MAX_CONTAINERS = 250
#: Report at most this many unknown keys of one object.
_MAX_UNKNOWN_KEYS = 100
#: Kinds with a pod template: their API groups, and the path to the template.
_TEMPLATES = {
    **dict.fromkeys(("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"), (("apps", "extensions"), ("spec",))),
    "Job": (("batch",), ("spec",)),
    "CronJob": (("batch",), ("spec", "jobTemplate", "spec")),
    "ReplicationController": (("",), ("spec",)),
    "PodTemplate": (("",), ()),
}
#: The paths of pod templates in custom resources, as in a Deployment and in a CronJob.
_CUSTOM_TEMPLATES = (("spec",), ("spec", "jobTemplate", "spec"))


class PodManifest(NamedTuple):
    """A pod of a file.

    Attributes:
        document: the document that contains it.
        pod: its `metadata` and `spec`; a template has the name and namespace of the object that contains it.
        key_notes: a line for each unknown or duplicate key.
        unknown_keys: the paths of the unknown keys.
    """

    document: Document
    pod: dict[str, Any]
    key_notes: list[str]
    unknown_keys: frozenset[str]


def read_pod_manifests(
    source: Source, wrap: Callable[[Any], Any] = lambda root: root
) -> tuple[list[tuple[PodManifest, dict[str, Any]]], list[str]]:
    """Return the pods of a file, each with the object that contains it, and a line for each object without a pod.

    `wrap` replaces the tree of each document. Raises ConfigError if the file is invalid or has no pods.
    """
    pods, left_out = [], []
    for document, tree in objects(source, wrap, lenient=True):
        if not tree.get("kind"):
            raise document.error("expected an object with a kind", "kind", tree)
        pod = pod_manifest(document, tree)
        if pod is None:
            kind = plain(str(tree["kind"]), 80)
            left_out.append(f"{document.place(tree)}: kind {kind}: omitted, because it contains no pod")
            continue
        _check_containers(document, document.table(pod.pod, "spec"))
        pods.append((pod, tree))
        if len(pods) > _MAX_PODS:
            raise ConfigError(source.name, "", f"contains more than {_MAX_PODS} pods")
    if not pods:
        raise ConfigError(source.name, "", "contains neither a Pod nor an object with a pod template", "kind: Pod")
    return pods, left_out


def pod_manifest(document: Document, tree: dict[str, Any]) -> PodManifest | None:
    """Return the pod of an object, or its pod template as a pod. Returns None if it has neither.

    Raises ConfigError if a field has a wrong type.
    """
    kind, group = tree.get("kind"), document.text(tree, "apiVersion").rpartition("/")[0]
    groups, holder = _TEMPLATES.get(kind, ((), None)) if isinstance(kind, str) else ((), None)
    if kind == "Pod":
        check, pod = _Check(document, "Pod", tree, ()), tree
    elif holder is not None and (group in groups or not tree.get("apiVersion")):
        if _value_at(tree, (*holder, "template")) is None:
            return None
        check = _Check(document, str(kind), tree, ())
        pod = _from_template(document, tree, holder)
    else:
        custom_holder = next((path for path in _CUSTOM_TEMPLATES if _has_containers(tree, path)), None)
        if custom_holder is None:
            return None
        template = _value_at(tree, (*custom_holder, "template"))
        check = _Check(document, "PodTemplateSpec", template, (*custom_holder, "template"))
        pod = _from_template(document, tree, custom_holder)
    check.run()
    lines = [*document.repeated_keys(), *check.lines()]
    return PodManifest(document, pod, lines, frozenset(path_text(path) for _, _, path, _ in check.unknown))


def _check_containers(document: Document, spec: dict[str, Any]) -> None:
    """Refuse a pod without containers, or with too many containers."""
    containers = document.tables(spec, "containers", "spec.")
    if not containers:
        raise document.error("a pod requires at least one container", "spec.containers", spec or None)
    if len(containers) + len(document.tables(spec, "initContainers", "spec.")) > _MAX_CONTAINERS:
        raise document.error(f"more than {_MAX_CONTAINERS} containers", "spec.containers", spec)


def _value_at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _has_containers(tree: dict[str, Any], holder: Path) -> bool:
    return isinstance(_value_at(tree, (*holder, "template", "spec", "containers")), list)


def _from_template(document: Document, tree: dict[str, Any], holder: Path) -> dict[str, Any]:
    """Return the pod that a controller makes from a template: with the owner's name, and the volumes of its claims."""
    owner, where = document.table(tree, "metadata"), tree
    for depth, key in enumerate(holder):
        where = document.table(where, str(key), "".join(f"{name}." for name in holder[:depth]))
    template = document.table(where, "template", "".join(f"{name}." for name in holder))
    metadata, spec = document.table(template, "metadata"), document.table(template, "spec")
    names = {key: owner.get(key) for key in ("name", "generateName", "namespace") if owner.get(key)}
    renamed = {"name", "generateName"} if names.keys() - {"namespace"} else set()
    pod_metadata = {key: metadata.get(key) for key in metadata if key not in renamed}
    claims = [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{names.get('name', '')}-0"}}
        for claim in document.tables(where, "volumeClaimTemplates", "spec.")
        if (name := document.text(document.table(claim, "metadata"), "name"))
    ]
    if claims:
        spec["volumes"] = [*document.tables(spec, "volumes", "spec."), *claims]
    return {"metadata": {**pod_metadata, **names}, "spec": spec}


def pod_name(document: Document, metadata: dict[str, Any]) -> str:
    """Return the name of a pod, or "". As in the API server, a generated name ends in five random characters."""
    name, prefix = (document.text(metadata, key, "metadata.") for key in ("name", "generateName"))
    return name or (prefix and f"{prefix}{kubelet.make_id(prefix)[:5]}")


def localhost_seccomp(document: Document, profile: dict[str, Any], where: str, root: str = kubelet.SECCOMP_ROOT) -> str:
    """Return the path of a seccomp profile's file. Returns "" if its type is not Localhost.

    A manifest names the file below the kubelet's folder `root`. Raises ConfigError if the path is invalid.
    """
    key, key_path = "localhostProfile", f"{where}seccompProfile.localhostProfile"
    name = document.text(profile, key, key_path)
    if profile.get("type") != "Localhost":
        if name:
            raise document.error(
                "only a profile of type Localhost names a file", key_path, profile, key, "remove the key"
            )
        return ""
    if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
        reason = "expected the path of a file below the kubelet's folder of profiles, without .."
        raise document.error(reason, key_path, profile, key)
    return f"{root}/{name}"


class _Check:
    """Compares an object with the fields of the API.

    Attributes:
        unknown: mapping, key, path and most similar name of each unknown key.
    """

    def __init__(self, document: Document, kind: str, tree: dict[str, Any], path: Path) -> None:
        self._document = document
        self._root = kind, tree, path
        self.unknown: list[tuple[Any, str, Path, str]] = []

    def run(self) -> None:
        """Walk the object. Raises ConfigError if a value has a wrong type."""
        kind, tree, path = self._root
        waiting: list[tuple[str, Any, Path]] = [(kind, tree, path)]
        visited: set[tuple[str, int]] = set()
        while waiting:
            kind, value, path = waiting.pop()
            if value is None or kind == "any" or (kind, id(value)) in visited:
                continue
            visited.add((kind, id(value)))
            if kind[0] == "[":
                waiting += reversed([(kind[1:-1], item, (*path, index)) for index, item in enumerate(value)])
                for index, item in enumerate(value):
                    self._check_type(kind[1:-1], item, value, index, path)
                continue
            kinds = None if kind[0] == "{" else fields(kind)
            if kind[0] != "{" and kinds is None:
                continue
            children = []
            for key, item in dict.items(value):
                item_kind = kind[1:-1] if kinds is None else kinds.get(key, "")
                if not item_kind:
                    self._note_unknown_key(value, str(key), (*path, str(key)), kinds or {})
                    continue
                self._check_type(item_kind, item, value, key, path)
                children.append((item_kind, item, (*path, str(key))))
            waiting += reversed(children)

    def lines(self) -> list[str]:
        """Return a line for each unknown key."""
        lines = [
            f"{self._document.place(table, key)}: {plain(path_text(path), 200)} is ignored: "
            + (f"did you mean {suggestion}?" if suggestion else "unknown key")
            for table, key, path, suggestion in self.unknown[:_MAX_UNKNOWN_KEYS]
        ]
        more = len(self.unknown) - _MAX_UNKNOWN_KEYS
        return [*lines, f"{self._document.place(self._root[1])}: {more} more unknown keys"] if more > 0 else lines

    def _note_unknown_key(self, table: Any, key: str, path: Path, known_keys: Mapping[str, str]) -> None:
        suggestion = nearest(key, known_keys) if len(self.unknown) < _MAX_UNKNOWN_KEYS else ""
        self.unknown.append((table, key, path, suggestion))

    def _check_type(self, kind: str, value: Any, table: Any, key: Any, path: Path) -> None:
        if value is None or kind == "any":
            return
        expected = _expected(kind, value)
        if expected:
            key_path = (*path, key if isinstance(key, int) else str(key))
            shown = "" if isinstance(value, (dict, list)) else f", not {_value_text(value)}"
            advice = "put the value in quotes" if kind == "str" and shown else ""
            raise self._document.error(f"expected {expected}{shown}", path_text(key_path), table, key, advice)


def _value_text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f'"{cut(text, 60)}"' if isinstance(value, str) else cut(text, 60)


def _expected(kind: str, value: Any) -> str:
    """Return the name of the expected type. Returns "" if the value has this type."""
    if kind[0] == "[":
        return "" if isinstance(value, list) else "a list"
    if kind[0] == "{" or fields(kind) is not None:
        return "" if isinstance(value, dict) else "a mapping of keys to values"
    if isinstance(value, (dict, list)):
        return _SCALARS.get(kind, "a string")
    if kind == "bool":
        return "" if isinstance(value, bool) else "true or false"
    if kind in _INTEGERS:
        is_whole = value.is_integer() if isinstance(value, float) else type(value) is int
        return "" if is_whole and -_INTEGERS[kind] <= value < _INTEGERS[kind] else "a whole number"
    if kind == "intstr":
        return "" if isinstance(value, (int, str)) and not isinstance(value, bool) else _SCALARS[kind]
    if kind == "quantity":
        return "" if _is_quantity(value) else _SCALARS[kind]
    return "" if isinstance(value, str) else "a string"


#: The names of scalar types.
_SCALARS = {
    "bool": "true or false",
    "int32": "a whole number",
    "int64": "a whole number",
    "intstr": "a whole number or a string",
    "quantity": "a quantity such as 500m or 1Gi",
}
#: The limits of whole numbers.
_INTEGERS = {"int32": 2**31, "int64": 2**63}


def _is_quantity(value: Any) -> bool:
    if isinstance(value, bool) or (isinstance(value, str) and not value):
        return False
    try:
        quantity.parse(value)
    except ValueError:
        return False
    return True
