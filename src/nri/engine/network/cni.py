"""Call CNI plugins for a pod: ADD in the order of the list, DEL in reverse order, CHECK.

The result of ADD and the configuration are written to the disk before `add` returns, so that a restarted engine can
pass them to DEL. Source: the CNI specification 1.1.0, sections 2 to 4.
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
from nri.engine.network.results import NetworkAttachment, PortMapping, capability_arguments, parse_result, plugin_error
from nri.engine.support.command import end_leftovers, last_lines, run
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError, MissingTool
from nri.engine.support.kernel import is_namespace
from nri.files import private_folder, read_regular, set_aside, write_whole

INTERFACE = "eth0"
TIMEOUT_S = 60.0
#: The maximum size of the record of a pod's network: the result and the configuration.
_RECORD_BYTES = 1 << 26
#: The keys of the record of an attachment. The file of a pod has the record of its first network, with the records of
#: the others in `further`, and the interface of each.
_KEYS = {"network", "version", "plugins", "namespace", "arguments", "check"}
#: Error numbers of temporary failures to read a file.
_TEMPORARY = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
Json = dict[str, Any]
_log = logging.getLogger(__name__)


class Cni:
    """Calls the CNI plugins in `folders`. `cache` is the folder of records, with one file for each pod."""

    def __init__(self, folders: Sequence[Path], cache: Path, *, timeout_s: float = TIMEOUT_S) -> None:
        self.configure(folders, timeout_s)
        self.cache = private_folder(cache)

    def configure(self, folders: Sequence[Path], timeout_s: float) -> None:
        """Use other folders and another time limit for the next calls."""
        self.folders, self.timeout_s = tuple(folders), timeout_s

    def add(
        self,
        networks: Sequence[Network],
        pod_id: str,
        namespace: Path,
        *,
        arguments: Mapping[str, str] | None = None,
        ports: Sequence[PortMapping] = (),
        **capabilities: Any,
    ) -> NetworkAttachment:
        """Attach a pod to networks, one after the other. `arguments` are CNI_ARGS, for example K8S_POD_NAME.

        Returns the attachment to the first network, whose interface is eth0. Raises EngineError if a plugin fails; then
        the calls of ADD are undone.
        """
        records: list[Json] = [
            {"network": network.name, "version": network.version, "interface": f"eth{place}",
             "plugins": [
                 {**row, "name": network.name, "cniVersion": network.version,
                  "runtimeConfig": capability_arguments(row, ports, **capabilities)}
                 for row in network.plugins
             ],
             "namespace": str(namespace), "arguments": dict(arguments or {}), "check": not network.disable_check}
            for place, network in enumerate(networks)
        ]  # fmt: skip
        record = {**records[0], "further": records[1:]}
        self._write_record(pod_id, record, sync=False)
        try:
            for attachment in _attachments(record):
                for row in attachment["plugins"]:
                    attachment["result"] = self._call("ADD", row, pod_id, attachment, attachment.get("result") or {})
            self._write_record(pod_id, record)
            attached, *_ = map(_parse_result, _attachments(record))
            return attached
        except (EngineError, OSError):
            self._undo(pod_id, record)
            raise

    def _undo(self, pod_id: str, record: Json) -> None:
        """Undo a failed ADD as far as possible; its error is not reported, because the caller gets the error of ADD."""
        try:
            self._delete(pod_id, record)
        except EngineError:
            return  # keep the file, so that the pod's removal tries again
        self._path(pod_id).unlink(missing_ok=True)

    def check(self, pod_id: str) -> None:
        """Let the plugins check the network. EngineError with the first problem."""
        for record in _attachments(self._read(pod_id)):
            for row in record["plugins"] if record["check"] and record["version"] >= "0.4.0" else ():
                self._call("CHECK", row, pod_id, record, record.get("result") or {})

    def delete(self, pod_id: str) -> None:
        """Detach a pod, even if its namespace or its file no longer exists; no effect if it was never attached."""
        path = self._path(pod_id)
        try:
            record = self._read(pod_id)
        except EngineError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _TEMPORARY:
                raise
            place = set_aside(path, self.cache / "broken")  # an unreadable result must not prevent stopping the pod
            _log.warning(
                "pod %s: its network is released without calling the CNI plugins, because %s; the file is now in %s. "
                "Check whether its addresses are still in use", pod_id, error, place,
            )  # fmt: skip
            return
        if record is not None:
            self._delete(pod_id, record)
        path.unlink(missing_ok=True)

    def _delete(self, pod_id: str, record: Json) -> None:
        first: EngineError | None = None
        for attachment in _attachments(record):
            for row in reversed(attachment["plugins"]):
                try:
                    self._call("DEL", row, pod_id, attachment, attachment.get("result") or {})
                except EngineError as error:
                    first = first or error
        if first is not None:
            raise first

    def attached(self) -> list[str]:
        """Return the ids of the pods that have a record of a network."""
        return sorted(path.stem for path in self.cache.glob("*.json"))

    def _call(self, command: str, row: Json, pod_id: str, record: Json, previous: Json) -> Json:
        program = self._find(row["type"])
        data = {**row, "prevResult": previous} if previous else dict(row)
        if not data["runtimeConfig"]:
            del data["runtimeConfig"]
        is_gone = command == "DEL" and not is_namespace(record["namespace"])
        environment = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": pod_id,
            "CNI_NETNS": "" if is_gone else record["namespace"],
            "CNI_IFNAME": record.get("interface", INTERFACE),
            "CNI_PATH": os.pathsep.join(map(str, self.folders)),
            "CNI_ARGS": _arguments(record["arguments"]),
        }
        action = f"network {record['network']}: {row['type']} {command}"
        try:
            output = run(
                [program], timeout_s=self.timeout_s, action=action, data=json.dumps(data).encode(), env=environment,
                check=False,
            )  # fmt: skip
        except CommandTimeout:
            if command != "CHECK":  # a child in its own session would continue, even while this is undone
                end_leftovers(self.cache / pod_id, f"CNI_CONTAINERID={pod_id}")
            raise
        answer = _json_answer(output.stdout)
        if output.code:
            raise CommandFailed(action, output.code, plugin_error(answer) if answer else last_lines(output.stderr))
        if command == "ADD" and answer is None:
            raise EngineError(f"{action}: the answer is not JSON")
        return answer or {}

    def _find(self, name: str) -> str:
        for folder in self.folders:
            if os.access(folder / name, os.X_OK):
                return str(folder / name)
        folders = ", ".join(map(str, self.folders))
        raise MissingTool(name, f"the CNI plugin {name!r} is missing: it is in none of the folders {folders}")

    def _read(self, pod_id: str) -> Json | None:
        try:
            record = dict(parse_json(read_regular(self._path(pod_id), _RECORD_BYTES)))
            for attachment in _attachments(record):
                if not attachment.keys() >= _KEYS or not all(
                    {"type", "runtimeConfig"} <= row.keys() for row in attachment["plugins"]
                ):
                    raise ValueError("not a record of a CNI result")
            return record
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise EngineError(f"{self._path(pod_id)} cannot be read: {error}") from error

    def _write_record(self, pod_id: str, record: Json, *, sync: bool = True) -> None:
        write_whole(self._path(pod_id), json.dumps(record).encode(), sync=sync)

    def _path(self, pod_id: str) -> Path:
        if not pod_id or "/" in pod_id or pod_id.startswith("."):
            raise EngineError(f"{pod_id!r} is not a pod's id")
        return self.cache / f"{pod_id}.json"


def _arguments(arguments: Mapping[str, str]) -> str:
    """Return the value of CNI_ARGS. IgnoreUnknown requests that plugins ignore unknown arguments."""
    rows = {"IgnoreUnknown": "1", **arguments} if arguments else {}
    return ";".join(f"{key}={value}" for key, value in rows.items())


def _attachments(record: Json | None) -> list[Json]:
    """Return the records of a pod's networks."""
    return [] if record is None else [record, *record.get("further", ())]


def _parse_result(record: Json) -> NetworkAttachment:
    try:
        return parse_result(record.get("result") or {}, record["interface"])
    except ValueError as error:
        raise EngineError(f"network {record['network']}: invalid result of its plugins: {error}") from None


def _json_answer(text: bytes) -> Json | None:
    try:
        answer = parse_json(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
