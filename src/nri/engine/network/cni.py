"""CNI plugins called for a pod: ADD in the order of the list, DEL against it, CHECK.

A plugin is a program that gets JSON and environment, with a deadline; ADD that fails half way is taken back at
once; the answer is kept on disk before ADD returns, so that DEL after a restart tells the plugins what they did, with
the configuration of that day; DEL tries all plugins and names the first error. An answer that nobody can read any more
keeps no pod from being stopped: it is set aside, and the log says that the plugins were not asked.
Source: the CNI specification 1.1.0, sections 2 to 4.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nri.config.syntax import parse_json
from nri.engine.network.configuration import Network
from nri.engine.network.results import Attached, PortMapping, capability_arguments, parse_result, plugin_error
from nri.engine.support.command import end_left, last_words, run
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError, MissingTool
from nri.files import private_folder, read_regular, set_aside, write_whole

INTERFACE = "eth0"
TIMEOUT_S = 60.0
#: The longest answer that is kept, with what it was an answer to.
_KEPT_BYTES = 1 << 26
_KEYS = {"network", "version", "plugins", "namespace", "arguments", "check"}
#: Errors of reading that pass.
_FOR_NOW = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
Json = dict[str, Any]
_log = logging.getLogger(__name__)


class Cni:
    """Calls plugins out of `folders`. `cache` is where answers are kept, one file for each pod."""

    def __init__(self, folders: Sequence[Path], cache: Path, *, timeout_s: float = TIMEOUT_S) -> None:
        self.folders = tuple(folders)
        self.cache = private_folder(cache)
        self.timeout_s = timeout_s

    def add(
        self,
        network: Network,
        pod_id: str,
        namespace: Path,
        *,
        arguments: Mapping[str, str] | None = None,
        ports: Sequence[PortMapping] = (),
        **capabilities: Any,
    ) -> Attached:
        """Attach a pod. `arguments` are CNI_ARGS, such as K8S_POD_NAME. Raises EngineError; nothing is left then."""
        rows = [
            {**row, "name": network.name, "cniVersion": network.version,
             "runtimeConfig": capability_arguments(row, ports, **capabilities)}
            for row in network.plugins
        ]  # fmt: skip
        kept: Json = {"network": network.name, "version": network.version, "plugins": rows, "namespace": str(namespace),
                      "arguments": dict(arguments or {}), "check": not network.disable_check}  # fmt: skip
        self._keep(pod_id, kept, sync=False)
        result: Json = {}
        try:
            for row in rows:
                result = self._call("ADD", row, pod_id, kept, result)
            kept["result"] = result
            self._keep(pod_id, kept)
            return _attached(network, result)
        except (EngineError, OSError):
            kept["result"] = result
            self._undo(pod_id, kept)
            raise

    def _undo(self, pod_id: str, kept: Json) -> None:
        """Take back what an ADD that failed has done, as far as that can be; the first error is the one to tell."""
        try:
            self._delete(pod_id, kept)
        except EngineError:
            return  # the file stays, so that the pod's removal tries again
        self._path(pod_id).unlink(missing_ok=True)

    def check(self, pod_id: str) -> None:
        """Have the plugins look whether all is as they left it. Raises EngineError with what is not."""
        kept = self._kept(pod_id)
        if kept is None or not kept["check"] or kept["version"] < "0.4.0":
            return
        for row in kept["plugins"]:
            self._call("CHECK", row, pod_id, kept, kept.get("result") or {})

    def delete(self, pod_id: str) -> None:
        """Detach a pod; one that was never attached is no error. Also for a namespace that is gone."""
        path = self._path(pod_id)
        try:
            kept = self._kept(pod_id)
        except EngineError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _FOR_NOW:
                raise
            place = set_aside(path, self.cache / "broken")
            _log.warning(
                "pod %s: its network is given back without the CNI plugins, because %s; the file is in %s now. "
                "Look whether its addresses are still taken", pod_id, error, place,
            )  # fmt: skip
            return
        if kept is not None:
            self._delete(pod_id, kept)
        path.unlink(missing_ok=True)

    def _delete(self, pod_id: str, kept: Json) -> None:
        first: EngineError | None = None
        for row in reversed(kept["plugins"]):
            try:
                self._call("DEL", row, pod_id, kept, kept.get("result") or {})
            except EngineError as error:
                first = first or error
        if first is not None:
            raise first

    def attached(self) -> list[str]:
        """The pods that have an answer on disk: what a restart compares with the records."""
        return sorted(path.stem for path in self.cache.glob("*.json"))

    def _call(self, command: str, row: Json, pod_id: str, kept: Json, previous: Json) -> Json:
        program = self._find(row["type"])
        data = {**row, "prevResult": previous} if previous else dict(row)
        if not data["runtimeConfig"]:
            del data["runtimeConfig"]
        gone = command == "DEL" and not os.path.exists(kept["namespace"])
        environment = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": pod_id,
            "CNI_NETNS": "" if gone else kept["namespace"],
            "CNI_IFNAME": INTERFACE,
            "CNI_PATH": os.pathsep.join(map(str, self.folders)),
            "CNI_ARGS": _arguments(kept["arguments"]),
        }
        action = f"network {kept['network']}: {row['type']} {command}"
        try:
            output = run(
                [program], timeout_s=self.timeout_s, action=action, data=json.dumps(data).encode(), env=environment,
                check=False,
            )  # fmt: skip
        except CommandTimeout:
            if command != "CHECK":  # a child with a session of its own would go on, also while this is taken back
                end_left(self.cache / pod_id, f"CNI_CONTAINERID={pod_id}")
            raise
        answer = _answer(output.stdout)
        if output.code:
            raise CommandFailed(action, output.code, plugin_error(answer) if answer else last_words(output.stderr))
        if command == "ADD" and answer is None:
            raise EngineError(f"{action}: an answer that is no JSON")
        return answer or {}

    def _find(self, name: str) -> str:
        for folder in self.folders:
            if os.access(folder / name, os.X_OK):
                return str(folder / name)
        raise MissingTool(f"{name} (a CNI plugin, looked for in {', '.join(map(str, self.folders))})")

    def _kept(self, pod_id: str) -> Json | None:
        try:
            kept = dict(parse_json(read_regular(self._path(pod_id), _KEPT_BYTES)))
            if not kept.keys() >= _KEYS or not all({"type", "runtimeConfig"} <= row.keys() for row in kept["plugins"]):
                raise ValueError("it is not what was kept")
            return kept
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise EngineError(f"{self._path(pod_id)} cannot be read: {error}") from error

    def _keep(self, pod_id: str, kept: Json, *, sync: bool = True) -> None:
        write_whole(self._path(pod_id), json.dumps(kept).encode(), sync=sync)

    def _path(self, pod_id: str) -> Path:
        if not pod_id or "/" in pod_id or pod_id.startswith("."):
            raise EngineError(f"{pod_id!r} is not a pod's id")
        return self.cache / f"{pod_id}.json"


def _arguments(arguments: Mapping[str, str]) -> str:
    """The text of CNI_ARGS. It asks a plugin that does not know one of them to go on."""
    rows = {"IgnoreUnknown": "1", **arguments} if arguments else {}
    return ";".join(f"{key}={value}" for key, value in rows.items())


def _attached(network: Network, result: Json) -> Attached:
    try:
        return parse_result(result, INTERFACE)
    except ValueError as error:
        raise EngineError(f"network {network.name}: the answer of its plugins: {error}") from None


def _answer(text: bytes) -> Json | None:
    try:
        found = parse_json(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
