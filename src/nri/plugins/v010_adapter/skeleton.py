"""Plugins of the protocol 0.1.0 in Python: a function, and `run`.

    #!/usr/bin/env python3
    from nri.plugins.v010_adapter.skeleton import Request, run

    def note(request: Request) -> dict[str, str]:
        return {"seen": request.id}

    run(note)

The file's name is the plugin's type. The file is started for each event with the request on stdin. Use `nri.Plugin` for
new plugins that do not need to run under old runtimes.
"""

from __future__ import annotations

import json
import os
import sys

from nri.config.syntax import parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn, TextIO


class Spec:
    """The fields of a container's OCI spec.

    Attributes:
        resources: `linux.resources`, or None.
        namespaces: path by type, such as `network`, or "" for a new namespace.
        cgroups_path: its cgroup, below the mount of each controller.
        annotations: its annotations.
    """

    __slots__ = ("annotations", "cgroups_path", "namespaces", "resources")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.resources: dict[str, Any] | None = fields.get("resources")
        self.namespaces: dict[str, str] = fields.get("namespaces") or {}
        self.cgroups_path: str = fields.get("cgroupsPath") or ""
        self.annotations: dict[str, str] = fields.get("annotations") or {}


class Result:
    """The result of a plugin.

    Attributes:
        plugin: the plugin's type.
        version: the version of the protocol.
        error: the reason of a refusal, or "".
        metadata: strings for the plugins after it.
    """

    __slots__ = ("error", "metadata", "plugin", "version")

    def __init__(
        self, plugin: str = "", version: str = "", error: str = "", metadata: Mapping[str, str] | None = None
    ) -> None:
        self.plugin, self.version, self.error = plugin, version, error
        self.metadata = dict(metadata or {})

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        more = {"metadata": self.metadata} if self.metadata else {}
        return {"plugin": self.plugin, "version": self.version, "error": self.error, **more}


class Request:
    """The request to a plugin.

    Attributes:
        conf: the plugin's configuration in the node's file, or None.
        version: the version of the protocol, "0.1".
        state: "create" or "delete"; the protocol has "update", "pause" and "resume" as well.
        id: the id of the container, or of the pod's sandbox.
        sandbox_id: the id of the sandbox, or "" for a container without a sandbox.
        pid: the id of its process, or 0 before it is started.
        spec: the container.
        labels: the labels of the pod.
        results: the results of the plugins before it.
    """

    __slots__ = ("conf", "id", "labels", "pid", "results", "sandbox_id", "spec", "state", "version")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.conf: Any = fields.get("conf")
        self.version: str = fields.get("version") or ""
        self.state: str = fields.get("state") or ""
        self.id: str = fields.get("id") or ""
        self.sandbox_id: str = fields.get("sandboxID") or ""
        self.pid: int = fields.get("pid") or 0
        self.spec = Spec(fields.get("spec") or {})
        self.labels: dict[str, str] = fields.get("labels") or {}
        self.results = [
            Result(
                result.get("plugin") or "",
                result.get("version") or "",
                result.get("error") or "",
                result.get("metadata"),
            )
            for result in fields.get("results") or ()
        ]

    @property
    def is_sandbox(self) -> bool:
        """Whether the request is for the pod itself."""
        return self.id == self.sandbox_id


if TYPE_CHECKING:
    #: A plugin. It returns nothing, metadata, or a complete result. Its exceptions refuse with their message.
    Handler = Callable[[Request], Result | Mapping[str, str] | None]


def answer(handler: Handler, arguments: Sequence[str], fields: Mapping[str, Any], plugin: str) -> Result:
    """Call a plugin's handler with a request, and return its result. `plugin` is the plugin's type."""
    request = Request(fields)
    if list(arguments[:1]) != ["invoke"]:
        return Result(plugin, request.version, f"invalid arg {''.join(arguments[:1])}")
    try:
        result = handler(request)
    except Exception as error:  # noqa: BLE001 - the runtime must be notified of any error
        sys.excepthook(type(error), error, error.__traceback__)
        return Result(plugin, request.version, str(error) or type(error).__name__)
    if not isinstance(result, Result):
        result = Result(metadata=result)
    result.plugin, result.version = result.plugin or plugin, result.version or request.version
    return result


def run(handler: Handler, stdin: TextIO | None = None, stdout: TextIO | None = None) -> NoReturn:
    """Read the request, call the plugin, write its result, and end the program.

    The exit code is 0 with a result, even if the result is a refusal, and 1 if the request is invalid.
    """
    try:
        fields = parse_json((stdin or sys.stdin).read())
    except ValueError as error:
        sys.exit(f"invalid request on stdin: {error}")
    if not isinstance(fields, dict):
        sys.exit("invalid request on stdin: not an object")
    result = answer(handler, sys.argv[1:], fields, os.path.basename(sys.argv[0]))
    json.dump(result.to_json(), stdout or sys.stdout)
    sys.exit(0)
