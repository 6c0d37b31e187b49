"""The environment of a container as the kubelet computes it from a manifest: fields, resources, ``$(NAME)``.

Values of ConfigMaps, Secrets and the node are missing, because they are only known in a cluster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nri.kube import quantity
from nri.kube.pod_resources import container_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.kube.document import Document

#: The fields that contain the pod's addresses.
POD_ADDRESSES = frozenset(("status.podIP", "status.podIPs"))
#: The fields that a variable can refer to, next to single labels and annotations.
_FIELDS = frozenset(
    ("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
     "status.hostIP", "status.hostIPs", *POD_ADDRESSES)
)  # fmt: skip
_ENTRY = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_CLUSTER_SOURCES = ("configMapKeyRef", "secretKeyRef", "fileKeyRef")
_RESOURCE = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-.+)")
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
#: The kernel's limit for one argument or environment variable (MAX_ARG_STRLEN).
_MAX_STRING_BYTES = (128 << 10) - 1


class UnknownVariable:
    """A variable with an unknown value.

    Attributes:
        source: the key below `valueFrom`, or the field of the pod.
        optional: whether the container starts without the variable.
        table: the `valueFrom` of the variable.
    """

    __slots__ = ("optional", "source", "table")

    def __init__(self, source: str, table: dict[str, Any], optional: bool = False) -> None:
        self.source, self.table, self.optional = source, table, optional


@dataclass(slots=True)
class Environment:
    """The variables of a container.

    Attributes:
        values: the values by name, in order. A missing value is ""; optional variables with missing values are omitted.
        missing: the variables with unknown values.
    """

    values: dict[str, str] = field(default_factory=dict)
    missing: dict[str, UnknownVariable] = field(default_factory=dict)


class EnvironmentReader:
    """Reads the variables of a pod's containers.

    Args:
        document: the manifest.
        spec: the pod's spec.
        fields: the known fields of the pod by their paths.
        entries: the pod's `labels` and `annotations`.
    """

    def __init__(
        self,
        document: Document,
        spec: dict[str, Any],
        fields: Mapping[str, str],
        entries: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._document, self._spec, self._entries = document, spec, entries
        account = document.text(spec, "serviceAccountName", "spec.") or document.text(spec, "serviceAccount", "spec.")
        self._fields = {"spec.serviceAccountName": account or "default", **fields}

    def read(self, container: dict[str, Any]) -> Environment:
        """Return the variables of a container. Raises ConfigError if the manifest is invalid."""
        document, environment = self._document, Environment()
        values = environment.values
        for variable in document.tables(container, "env"):
            name, text = (document.text(variable, key, "env.") for key in ("name", "value"))
            if not name or "=" in name:
                raise document.error("a variable requires a name without =", "env.name", variable, "name")
            if text or variable.get("valueFrom") is None:
                values[name] = expanded(document, text, values, "env.value", variable, "value")
                continue
            value = self._value(document.table(variable, "valueFrom", "env."), container)
            if isinstance(value, str):
                values[name] = value
                continue
            environment.missing[name] = value
            if not value.optional:
                values[name] = ""
        return environment

    def _value(self, table: dict[str, Any], container: dict[str, Any]) -> str | UnknownVariable:
        """Return the value of a `valueFrom`, or why it is unknown."""
        document = self._document
        for key in _CLUSTER_SOURCES:
            if table.get(key) is not None:
                source = document.table(table, key, "env.valueFrom.")
                source.items()
                return UnknownVariable(key, table, document.flag(source, "optional", f"env.valueFrom.{key}."))
        if table.get("resourceFieldRef") is not None:
            return self._resource(table, container)
        reference = document.table(table, "fieldRef", "env.valueFrom.")
        path = document.text(reference, "fieldPath", "env.valueFrom.fieldRef.")
        document.text(reference, "apiVersion", "env.valueFrom.fieldRef.")
        if match := _ENTRY.fullmatch(path):
            return self._entries[match[1]].get(match[2], "")
        if path not in _FIELDS:
            raise document.error(f'unknown field "{path}"', "env.valueFrom.fieldRef.fieldPath", reference or table)
        value = self._fields.get(path)
        return UnknownVariable(path, table) if value is None else value

    def _resource(self, table: dict[str, Any], container: dict[str, Any]) -> str | UnknownVariable:
        """Return a request or limit of a container in units of a divisor, rounded up, or why it is unknown."""
        document, where = self._document, "env.valueFrom.resourceFieldRef."
        reference = document.table(table, "resourceFieldRef", "env.valueFrom.")
        name, resource = (document.text(reference, key, where) for key in ("containerName", "resource"))
        match = _RESOURCE.fullmatch(resource)
        if match is None:
            raise document.error(f'unknown resource "{resource}"', f"{where}resource", reference, "resource")
        if name:
            containers = [*document.tables(self._spec, "containers"), *document.tables(self._spec, "initContainers")]
            container = next((one for one in containers if one.get("name") == name), {})
            if not container:
                raise document.error(f'unknown container "{name}"', f"{where}containerName", reference, "containerName")
        amounts = container_amounts(container, "limits")
        if match[1] == "requests":
            amounts = {**amounts, **container_amounts(container, "requests")}
        amount = amounts.get(match[2])
        if not amount and match[1] == "limits" and not match[2].startswith("hugepages-"):
            return UnknownVariable("resourceFieldRef", table)
        divisor = quantity.parse(reference.get("divisor") or 1) or quantity.parse(1)
        unit = 1000 if match[2] == "cpu" else 1  # Kubernetes rounds up to thousandths of a CPU, and to bytes
        units = quantity.ceil((amount or quantity.parse(0)) * unit)
        return str(quantity.ceil(quantity.parse(units) / quantity.ceil(divisor * unit)))


def expanded(document: Document, text: str, values: Mapping[str, str], where: str, tree: Any, key: str) -> str:
    """Replace $(NAME) by the variable's value, and $$ by a dollar. Unknown variables stay.

    Raises ConfigError if the result is too long.
    """
    remaining = _MAX_STRING_BYTES

    def value(match: re.Match[str]) -> str:
        nonlocal remaining
        expansion = "$" if match[1] is None else values.get(match[1], match[0])
        remaining -= len(expansion)
        if remaining < 0:  # variables that contain each other double in length
            reason = f"expands to more than {_MAX_STRING_BYTES} characters, the kernel's limit"
            raise document.error(reason, where, tree, key)
        return expansion

    return _REFERENCE.sub(value, text)


def references(text: str) -> list[str]:
    """Return the names of the variables in a text."""
    return [name for name in _REFERENCE.findall(text) if name]
