"""`nri placement follow`: write the node's policy resource to the plugin's file, and the plugin's state to the cluster.

This program and not the plugin connects to the apiserver, so that the plugin, which is root, has no token. Until the
plugin has accepted a new file, the last good file is kept next to it. A plugin that refuses the new file at its start
uses the last good file.
"""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.config import Source, read, read_file
from nri.errors import ConfigError, NriError
from nri.files import private_folder, write_whole
from nri.kube.client.follow import Follower
from nri.kube.client.objects import NODE_ZONES, NODES, ApiserverError, Kind, Object
from nri.kube.object_cache import Key
from nri.placement.plugin import LAST_GOOD
from nri.signals import Stop

if TYPE_CHECKING:
    from nri.kube.client.connection import Apiserver

_log = logging.getLogger(__name__)
_OWNER = "nri-placement"
#: Seconds between two queries of the plugin's zones.
_ROUND_S = 5.0
#: Seconds that the plugin may take to accept a file; it checks the file once a second.
TAKE_S = 10.0
_POLL_S = 0.25
#: Seconds until a missing answer of the apiserver is worth a warning.
PATIENCE_S = 5.0
_MAX_REMEMBERED_WARNINGS = 64


def policy_of_node(policies: Mapping[Key, Object], node: str, group: str) -> Object | None:
    """The policy of a node: `node.NAME`, else `group.GROUP`, else `default`. Returns None without such a policy."""
    by_name = {name: policy for (_, name), policy in policies.items()}
    names = (f"node.{node}", f"group.{group}" if group else "", "default")
    return next((by_name[name] for name in names if name in by_name), None)


@dataclass(frozen=True, slots=True)
class Place:
    """Which resources to follow, and for which file.

    Attributes:
        kind: the kind of the policy resources.
        options: the class of options in their `spec`.
        label: the label of the node whose value is the node's group.
        file: the plugin's `--config`.
    """

    kind: Kind
    options: type
    node: str
    namespace: str
    label: str
    file: Path


class Resources:
    """Follow the policies of a node.

    Args:
        ask: return the plugin's answer to `/show`, or raise NriError.
    """

    def __init__(self, api: Apiserver, place: Place, ask: Callable[[], Mapping[str, Any]]) -> None:
        self._api, self._place, self._ask = api, place, ask
        self._changed = threading.Event()
        self._policies: Mapping[Key, Object] = {}
        self._group = ""
        self._offered_policy: tuple[str, int] | None = None
        self._current = ""
        self._pending_status: tuple[str, Object] | None = None
        #: The name and generation of the policy in force, and the last report about containers that it cannot serve.
        self._in_force: tuple[str, int] | None = None
        self._reported_unmet = ""
        #: The name and generation of a policy that the plugin has not accepted yet.
        self._pending_policy: tuple[str, int] | None = None
        #: The plugin's counter of files before that policy was written.
        self._files_before = 0
        #: The last accepted file, as long as the plugin has not answered about the current one.
        self._good = place.file.with_name(place.file.name + LAST_GOOD)
        self._zones: list[Object] | None = None
        self._logged: set[str] = set()
        namespace = f"metadata.namespace={place.namespace}"
        self.followers = (
            Follower(api, NODES, self._take_node, fields=f"metadata.name={place.node}"),
            Follower(api, place.kind, self.take_policies, fields=namespace),
        )

    def run(self, stopping: threading.Event, once: bool = False) -> None:
        """Follow the policies until `stopping` is set.

        Args:
            once: return as soon as the file exists. A policy that the plugin refuses then raises NriError.
        """
        for follower in self.followers:
            follower.start()
        start = time.monotonic()
        try:
            while not stopping.is_set():
                self._changed.wait(_ROUND_S if not once else _POLL_S)
                self._changed.clear()
                if not all(follower.synced for follower in self.followers):
                    if time.monotonic() - start >= PATIENCE_S:
                        self._warn("waiting for the apiserver")
                    continue
                if once and self._provide_file():
                    return
                if not once:
                    self.step()
        finally:
            for follower in self.followers:
                follower.stop()

    def wake(self) -> None:
        """Start the next round now."""
        self._changed.set()

    def step(self) -> None:
        """Write a new policy to the plugin's file, and the plugin's state to the cluster. Errors are logged."""
        try:
            self._step()
        except (NriError, OSError) as error:
            self._warn(str(error))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            answer = f"the plugin's answer cannot be used ({type(error).__name__}: {error})"
            self._warn(f"{answer}; run the plugin and nri placement follow from the same version of nri")

    def _step(self) -> None:
        offered = self._offer()
        if offered is not None:
            name, generation, problem = offered
            self._pending_status = name, _status(generation, problem)
            self._in_force, self._reported_unmet = None if problem else (name, generation), ""
        if self._pending_status is not None:
            self._write_status(*self._pending_status)
            self._pending_status = None
        shown = self._ask()
        self._report_unmet("; ".join(shown["configuration"].get("unmet", ())))
        self._write_zones(shown)

    def _report_unmet(self, unmet: str) -> None:
        """Write into the policy's status which running containers the policy cannot serve."""
        if self._in_force is not None and unmet != self._reported_unmet:
            name, generation = self._in_force
            self._write_status(name, _status(generation, "", unmet))
            self._reported_unmet = unmet

    def _provide_file(self) -> bool:
        """Write the plugin's file if it does not exist. Returns whether it exists now.

        While no plugin runs, an existing valid file stays, because nobody could check a new file. Raises NriError if
        the policy is refused.
        """
        file = self._place.file
        if self._file_counter() is None:
            if self._good.exists():
                self._good.replace(file)
            if self._is_valid():
                _log.info("%s stays as it is; a new policy is written when the plugin runs", file)
                return True
            return self.write() is not None and file.exists()
        offered = self._offer()
        if offered is None:
            return False
        name, generation, problem = offered
        if problem:
            self._finish(problem)
            raise NriError(f"{self._place.kind} {name}, generation {generation}: {problem}; {file} is unchanged")
        return True

    def _is_valid(self) -> bool:
        """Whether a plugin can start with the file."""
        try:
            read(self._place.options, [read_file(str(self._place.file))])
        except ConfigError as error:
            if self._place.file.exists():
                self._warn(f"{error}; writing the file again")
            return False
        return True

    def _offer(self) -> tuple[str, int, str] | None:
        """Write a new policy and wait for the plugin.

        Returns the policy's name, its generation, and why it is not in force or ""; or None without a new policy.
        """
        before = self._file_counter() or 0
        written = self.write()
        if written is not None:
            name, generation, problem = written
            self._files_before, answered = before, True
            if not problem:
                problem, answered = self._plugin_answer(TAKE_S)
            self._pending_policy = None if answered else (name, generation)
        elif self._pending_policy is not None:
            name, generation = self._pending_policy
            problem, answered = self._plugin_answer(0)
            if not answered:
                return None
            self._pending_policy = None
        else:
            return None
        if answered:
            self._finish(problem)
        return name, generation, problem

    def _finish(self, problem: str) -> None:
        """Restore the last good file if the new one was refused, else delete it."""
        if not problem:
            self._good.unlink(missing_ok=True)
        elif self._good.exists():
            self._good.replace(self._place.file)

    def write(self) -> tuple[str, int, str] | None:
        """Write the file of a new policy. A policy that cannot be read leaves the file as it is.

        Returns the policy's name, its generation, and why it was not written or ""; or None without a new policy.
        """
        policy = policy_of_node(self._policies, self._place.node, self._group)
        if policy is None:
            group = f", group.{self._group}" if self._group else ""
            self._warn(f"{self._place.kind} not found: node.{self._place.node}{group} or default")
            return None
        meta = policy["metadata"]
        name, generation = meta["name"], int(meta.get("generation") or 0)
        version = f"{name}/{meta.get('uid')}", generation
        if version == self._offered_policy:
            return None
        text = json.dumps({key: policy[key] for key in ("apiVersion", "kind", "spec") if key in policy})
        try:
            read(self._place.options, [Source(f"{self._place.kind} {name}", text, "json")])
        except ConfigError as error:
            _log.error("%s; the configuration is unchanged", error)
            self._offered_policy = version
            return name, generation, str(error)
        file = self._place.file
        if not file.parent.exists():  # the plugin creates it, but has not started yet
            private_folder(file.parent)
        if (
            # Otherwise no plugin has accepted the current file.
            self._pending_policy is None and file.exists() and not self._good.exists()
        ):
            write_whole(self._good, file.read_bytes())
        write_whole(file, text.encode())
        _log.info("wrote %s %s, generation %d, to %s", self._place.kind, name, generation, file)
        self._offered_policy = version
        return name, generation, ""

    def _file_counter(self) -> int | None:
        """The number of files that the plugin has read since its start. Returns None if the plugin does not run."""
        try:
            return int(self._ask().get("configuration", {}).get("given", 0))
        except NriError:
            return None

    def _plugin_answer(self, wait_s: float) -> tuple[str, bool]:
        """Wait for the plugin to read the file.

        Returns the plugin's complaint or "", and True; or the reason why there is no answer yet, and False.
        """
        deadline = time.monotonic() + wait_s
        while True:
            try:
                now = self._ask()["configuration"]
                if now["given"] != self._files_before:  # a smaller number: the plugin has restarted with this file
                    return str(now["problem"]), True
                reason = f"the plugin has not read it in time; is its --config {self._place.file}?"
            except NriError as error:
                reason, self._files_before = str(error), 0  # a plugin that starts now begins with this file
            if time.monotonic() >= deadline:
                return reason, False
            time.sleep(_POLL_S)

    def _write_status(self, name: str, status: Object) -> None:
        """Write this node's part of a policy's status, and remove it from the previous policy."""
        place, node = self._place, self._place.node
        for policy, part in ((self._current, None), (name, status)):
            if policy and (part is not None or policy != name):
                path = place.kind.object_path(place.namespace, policy, "status")
                try:
                    self._api.patch(
                        f"patch the status of {place.kind} {policy}", path, {"status": {"nodes": {node: part}}}
                    )
                except ApiserverError as error:
                    is_deleted = all(name != policy for _, name in self._policies)
                    if error.status != 404 or (part is not None and not is_deleted):
                        raise
        self._current = name

    def _write_zones(self, shown: Mapping[str, Any]) -> None:
        zones = shown["zones"]
        if zones == self._zones:
            return
        node = self._place.node
        document = {
            "apiVersion": f"{NODE_ZONES.group}/{NODE_ZONES.version}",
            "kind": NODE_ZONES.name,
            "metadata": {"name": node},
            "attributes": [{"name": "TopologyPolicy", "value": str(shown.get("policy", ""))}],
            "zones": zones,
        }
        self._api.patch(f"apply {NODE_ZONES} {node}", NODE_ZONES.cluster_object_path(node), document, _OWNER)
        self._zones = zones
        self._logged.clear()

    def _take_node(self, nodes: Mapping[Key, Object]) -> None:
        labels = next((node["metadata"].get("labels") or {} for node in nodes.values()), {})
        self._group = str(labels.get(self._place.label) or "")
        self._changed.set()

    def take_policies(self, policies: Mapping[Key, Object]) -> None:
        """Replace the known policies."""
        self._policies = dict(policies)
        self._changed.set()

    def _warn(self, warning: str) -> None:
        """Log a warning, unless it was already logged."""
        if warning not in self._logged:
            if len(self._logged) >= _MAX_REMEMBERED_WARNINGS:
                self._logged.clear()
            self._logged.add(warning)
            _log.warning("%s", warning)


def follow_until_stopped(api: Apiserver, place: Place, ask: Callable[[], Mapping[str, Any]], once: bool) -> None:
    """Follow the policies of a node until a signal stops the program.

    Args:
        once: return as soon as the file exists. A policy that the plugin refuses then raises NriError.
    """
    stop, stopping = Stop(second_ends=True), threading.Event()
    resources = Resources(api, place, ask)
    if once:
        resources.run(stopping, once=True)
        return
    stop.listen()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            resources.run(stopping)
        except BaseException as error:  # noqa: BLE001  raised below; the wait for a signal would hide it
            errors.append(error)
        finally:
            if not stopping.is_set():  # a second signal would otherwise end the process at once
                stop.take(signal.SIGTERM)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    stop.wait_for_signal()
    stopping.set()
    resources.wake()
    thread.join()
    if errors:
        raise errors[0]


def _status(generation: int, problem: str, unmet: str = "") -> Object:
    """A node's part of a policy's status.

    Args:
        problem: why the policy is not in force.
        unmet: the running containers that the policy cannot serve.
    """
    return {
        "status": "Failure" if problem else "Success",
        "errors": problem or unmet,
        "generation": generation,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
