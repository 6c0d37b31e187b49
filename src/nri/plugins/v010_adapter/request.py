"""Requests and results of the protocol 0.1.0 as JSON objects.

As in the Go adapter, empty fields are omitted, except for `spec.resources`, which is null for a container without
resources. Results are parsed as in Go: keys in any case, unknown keys ignored, null for an empty value.
"""

from __future__ import annotations

import json

from nri.api.resource_names import CPU, CPUSET, MEMORY
from nri.config.syntax import parse_json
from nri.text import plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import nri

#: The states that the adapter sends.
CREATE, DELETE = "create", "delete"

#: Show this many bytes of an invalid result.
MAX_SHOWN_BYTES = 512


class AnswerError(ValueError):
    """The output of a program is not a result. The message contains the output."""


class _InvalidResult(ValueError):
    """The reason for an `AnswerError`."""


def of_pod(pod: nri.PodSandbox, state: str) -> dict[str, Any]:
    """The request about a pod's sandbox, without version, configuration and results."""
    return _request(pod, pod, state)


def of_container(pod: nri.PodSandbox, container: nri.Container, state: str) -> dict[str, Any]:
    """The request about a container, without version, configuration and results."""
    return _request(pod, container, state)


def _request(pod: nri.PodSandbox, what: nri.PodSandbox | nri.Container, state: str) -> dict[str, Any]:
    linux = what.linux
    spec = {
        "resources": _resources(linux.resources) if linux.HasField("resources") else None,
        "namespaces": {namespace.type: namespace.path for namespace in linux.namespaces},
        "cgroupsPath": linux.cgroups_path,
        "annotations": dict(what.annotations),
    }
    return {
        "state": state,
        "id": what.id,
        **_without_empty({"sandboxID": pod.id, "pid": what.pid}),
        "spec": {"resources": spec.pop("resources"), **_without_empty(spec)},
        **_without_empty({"labels": dict(pod.labels)}),
    }


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}


def _resources(resources: Any) -> dict[str, Any]:
    """The `linux.resources` of an OCI spec. The keys memory and cpu exist even without values."""
    fields: dict[str, Any] = {"devices": [_device(device) for device in resources.devices]}
    fields["hugepageLimits"] = [{"pageSize": one.page_size, "limit": one.limit} for one in resources.hugepage_limits]
    fields["unified"] = dict(resources.unified)
    fields = _without_empty(fields)
    for part, names in (("memory", MEMORY), ("cpu", CPU)):
        message = getattr(resources, part)
        fields[part] = {key: getattr(message, field).value for field, key in names if message.HasField(field)}
    fields["cpu"].update(_without_empty({key: getattr(resources.cpu, key) for key in CPUSET}))
    if resources.HasField("pids"):
        fields["pids"] = {"limit": max(resources.pids.limit, -1)}
    return fields


def _device(device: Any) -> dict[str, Any]:
    numbers = {key: getattr(device, key).value for key in ("major", "minor") if device.HasField(key)}
    return {
        "allow": device.allow,
        **_without_empty({"type": device.type}),
        **numbers,
        **_without_empty({"access": device.access}),
    }


def read_result(output: bytes, code: int) -> dict[str, Any]:
    """Parse a program's result: plugin, version, error, and metadata if present. Raises AnswerError if invalid."""
    try:
        answer = parse_json(output)
        if answer is not None and not isinstance(answer, dict):
            raise _InvalidResult(f"an object was expected, not {type(answer).__name__}")
        values = {key.lower(): value for key, value in (answer or {}).items() if value is not None}
        result: dict[str, Any] = {key: _text(values, key) for key in ("plugin", "version", "error")}
        metadata = values.get("metadata", {})
        if not isinstance(metadata, dict):
            raise _InvalidResult(f"metadata: an object was expected, not {plain(json.dumps(metadata), 80)}")
        result.update(_without_empty({"metadata": {key: _text(metadata, key, "metadata.") for key in metadata}}))
    except ValueError as error:
        wrote = quote(output[:MAX_SHOWN_BYTES].decode(errors="replace")) if output else "<empty>"
        cut = "..." if len(output) > MAX_SHOWN_BYTES else ""
        ended = f" exit code: {code}" if code else ""
        raise AnswerError(f"failed to unmarshal plugin output output: {wrote}{cut}{ended}: {error}") from None
    return result


def _text(table: dict[str, Any], key: str, prefix: str = "") -> str:
    value = table.get(key, "")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _InvalidResult(f"{prefix}{plain(key, 80)}: a string was expected, not {plain(json.dumps(value), 80)}")
    return value
