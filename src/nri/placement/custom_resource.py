"""Custom resources beside a placement plugin: the node's one becomes its file, its state goes back to the cluster.

One job: :class:`Resources`. Of the policies in a namespace `node.NAME` comes first, then `group.GROUP` (by a label of
the node), then `default`. It becomes the file that the plugin watches, what the plugin says of it the resource's
status, and the plugin's pools or balloons a NodeResourceTopology. Rules: only this knows the apiserver, so the plugin,
which is root, has no token; a resource that cannot be read leaves the file as it is, and one that the plugin refuses is
taken out of it again; until the plugin has had its say the last good one is beside it, and one that starts and refuses
the file starts with that; with `once` a file that is there is not replaced while no plugin runs; all waits have an end.
`nri placement follow` runs it.
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
#: How often the plugin is asked for its places, in seconds.
_ROUND_S = 5.0
#: How long the plugin has to take a file, in seconds; it looks at it once a second.
TAKE_S = 10.0
_POLL_S = 0.25
_MOST_SAID = 64


def chosen(policies: Mapping[Key, Object], node: str, group: str) -> Object | None:
    """Of policies the one for a node: its own, that of its group, the default one; None if there is none."""
    by_name = {name: each for (_, name), each in policies.items()}
    names = (f"node.{node}", f"group.{group}" if group else "", "default")
    return next((by_name[name] for name in names if name in by_name), None)


@dataclass(frozen=True, slots=True)
class Place:
    """Where resources are, and whose they are.

    Attributes:
        kind: of the policy; `options` what its `spec` is read as.
        label: of the node, whose value is its group.
        file: what the plugin's `--config` names.
    """

    kind: Kind
    options: type
    node: str
    namespace: str
    label: str
    file: Path


class Resources:
    """The policies of a node, followed. `ask` gives the plugin's answer to `/show`, and raises NriError without one."""

    def __init__(self, api: Apiserver, place: Place, ask: Callable[[], Mapping[str, Any]]) -> None:
        self._api, self._place, self._ask = api, place, ask
        self._changed = threading.Event()
        self._policies: Mapping[Key, Object] = {}
        self._group = ""
        self._tried: tuple[str, int] | None = None
        self._current = ""
        self._untold: tuple[str, Object] | None = None
        #: The name and generation of the policy that the plugin took last, and what it said of containers then.
        self._in_force: tuple[str, int] | None = None
        self._unmet = ""
        #: A policy, with its generation, whose file the plugin has not taken yet, and how many it was given before.
        self._late: tuple[str, int] | None = None
        self._before = 0
        #: What the plugin took last, as long as it has not said what it thinks of what is in its file now.
        self._good = place.file.with_name(place.file.name + LAST_GOOD)
        self._zones: list[Object] | None = None
        self._said: set[str] = set()
        namespace = f"metadata.namespace={place.namespace}"
        self.followers = (
            Follower(api, NODES, self._take_node, fields=f"metadata.name={place.node}"),
            Follower(api, place.kind, self.take_policies, fields=namespace),
        )

    def run(self, stopping: threading.Event, once: bool = False) -> None:
        """Follow until stopped; with `once` until the file is there.

        Raises NriError for a policy that the plugin refuses, with `once` only.
        """
        for each in self.followers:
            each.start()
        try:
            while not stopping.is_set():
                self._changed.wait(_ROUND_S if not once else _POLL_S)
                self._changed.clear()
                if not all(each.synced for each in self.followers):
                    self._say("waiting for the apiserver")
                    continue
                if once and self._once():
                    return
                if not once:
                    self.step()
        finally:
            for each in self.followers:
                each.stop()

    def cut(self) -> None:
        """Look now, and not after the round."""
        self._changed.set()

    def step(self) -> None:
        """Let the plugin have what is new, and the cluster the plugin's state. Failed writes are tried again later."""
        try:
            self._step()
        except (NriError, OSError) as error:
            self._say(str(error))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            answer = f"the plugin's answer cannot be used ({type(error).__name__}: {error})"
            self._say(f"{answer}; let plugin and follow be of one version of nri")

    def _step(self) -> None:
        offered = self._offer()
        if offered is not None:
            name, generation, problem = offered
            self._untold = name, _status(generation, problem)
            self._in_force, self._unmet = None if problem else (name, generation), ""
        if self._untold is not None:
            self._tell(*self._untold)
            self._untold = None
        shown = self._ask()
        self._report_unmet("; ".join(shown["configuration"].get("unmet", ())))
        self._write_zones(shown)

    def _report_unmet(self, unmet: str) -> None:
        """Write into the status which running containers ask for what the policy in force does not have."""
        if self._in_force is not None and unmet != self._unmet:
            name, generation = self._in_force
            self._tell(name, _status(generation, "", unmet))
            self._unmet = unmet

    def _once(self) -> bool:
        """Let there be a file; whether it is. One that is there stays until a plugin can say what it thinks of another.

        Raises NriError for what the plugin refuses.
        """
        file = self._place.file
        if self._given() is None:
            if self._good.exists():
                self._good.replace(file)
            if self._can_be_read():
                _log.info("%s stays as it is; what is new comes to the plugin while it runs", file)
                return True
            return self.write() is not None and file.exists()
        offered = self._offer()
        if offered is None:
            return False
        name, generation, problem = offered
        if problem:
            self._keep(problem)
            raise NriError(f"{self._place.kind} {name}, generation {generation}: {problem}; {file} is as it was")
        return True

    def _can_be_read(self) -> bool:
        """Whether a plugin could start with the file."""
        try:
            read(self._place.options, [read_file(str(self._place.file))])
        except ConfigError as error:
            if self._place.file.exists():
                self._say(f"{error}; it is written again")
            return False
        return True

    def _offer(self) -> tuple[str, int, str] | None:
        """Let the plugin have a new policy: its name and generation, and why it is not in force; None without news."""
        before = self._given() or 0
        written = self.write()
        if written is not None:
            name, generation, problem = written
            self._before, taken = before, True
            if not problem:
                problem, taken = self._taken(TAKE_S)
            self._late = None if taken else (name, generation)
        elif self._late is not None:
            name, generation = self._late
            problem, taken = self._taken(0)
            if not taken:
                return None
            self._late = None
        else:
            return None
        if taken:
            self._keep(problem)
        return name, generation, problem

    def _keep(self, problem: str) -> None:
        """Let the file have the last good policy again if the new one is refused, else forget it."""
        if not problem:
            self._good.unlink(missing_ok=True)
        elif self._good.exists():
            self._good.replace(self._place.file)

    def write(self) -> tuple[str, int, str] | None:
        """Write the file for a new policy: its name, its generation, and why there is none; None without news."""
        policy = chosen(self._policies, self._place.node, self._group)
        if policy is None:
            group = f", group.{self._group}" if self._group else ""
            self._say(f"there is no {self._place.kind} node.{self._place.node}{group} or default")
            return None
        meta = policy["metadata"]
        name, generation = meta["name"], int(meta.get("generation") or 0)
        version = f"{name}/{meta.get('uid')}", generation
        if version == self._tried:
            return None
        text = json.dumps({key: policy[key] for key in ("apiVersion", "kind", "spec") if key in policy})
        try:
            read(self._place.options, [Source(f"{self._place.kind} {name}", text, "json")])
        except ConfigError as error:
            _log.error("%s; the configuration stays what it was", error)
            self._tried = version
            return name, generation, str(error)
        file = self._place.file
        if not file.parent.exists():  # the plugin's, which has not started yet
            private_folder(file.parent)
        if self._late is None and file.exists() and not self._good.exists():  # else nobody has seen what is there
            write_whole(self._good, file.read_bytes())
        write_whole(file, text.encode())
        _log.info("%s %s, generation %d, is in %s", self._place.kind, name, generation, file)
        self._tried = version
        return name, generation, ""

    def _given(self) -> int | None:
        """How many files the plugin was given until now; None if it does not run."""
        try:
            return int(self._ask().get("configuration", {}).get("given", 0))
        except NriError:
            return None

    def _taken(self, wait_s: float) -> tuple[str, bool]:
        """The plugin's report on the file, "" if it took it; else why there is none yet, and False."""
        end = time.monotonic() + wait_s
        while True:
            try:
                now = self._ask()["configuration"]
                if now["given"] != self._before:  # fewer: it has started again, with this file
                    return str(now["problem"]), True
                reason = f"the plugin has not taken it in time; is its --config {self._place.file}?"
            except NriError as error:
                reason, self._before = str(error), 0  # one that starts now begins with this file
            if time.monotonic() >= end:
                return reason, False
            time.sleep(_POLL_S)

    def _tell(self, name: str, status: Object) -> None:
        """Write this node's part of a policy's status; take it away from the one before."""
        place, node = self._place, self._place.node
        for each, part in ((self._current, None), (name, status)):
            if each and (part is not None or each != name):
                path = place.kind.in_namespace(place.namespace, each, "status")
                try:
                    self._api.patch(
                        f"patch the status of {place.kind} {each}", path, {"status": {"nodes": {node: part}}}
                    )
                except ApiserverError as error:
                    gone = all(name != each for _, name in self._policies)
                    if error.status != 404 or (part is not None and not gone):
                        raise
        self._current = name

    def _write_zones(self, shown: Mapping[str, Any]) -> None:
        zones = shown["zones"]
        if zones == self._zones:
            return
        node = self._place.node
        whole = {
            "apiVersion": f"{NODE_ZONES.group}/{NODE_ZONES.version}",
            "kind": NODE_ZONES.name,
            "metadata": {"name": node},
            "attributes": [{"name": "TopologyPolicy", "value": str(shown.get("policy", ""))}],
            "zones": zones,
        }
        self._api.patch(f"apply {NODE_ZONES} {node}", NODE_ZONES.named(node), whole, _OWNER)
        self._zones = zones
        self._said.clear()

    def _take_node(self, nodes: Mapping[Key, Object]) -> None:
        labels = next((each["metadata"].get("labels") or {} for each in nodes.values()), {})
        self._group = str(labels.get(self._place.label) or "")
        self._changed.set()

    def take_policies(self, policies: Mapping[Key, Object]) -> None:
        """Know these policies."""
        self._policies = dict(policies)
        self._changed.set()

    def _say(self, words: str) -> None:
        """Log what is wrong, once as long as it is."""
        if words not in self._said:
            if len(self._said) >= _MOST_SAID:
                self._said.clear()
            self._said.add(words)
            _log.warning("%s", words)


def follow_until_stopped(api: Apiserver, place: Place, ask: Callable[[], Mapping[str, Any]], once: bool) -> None:
    """Follow the policies of a node until a signal stops the program; with `once` until the file is there.

    Raises NriError for a policy that the plugin refuses, with `once` only.
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
            if not stopping.is_set():  # else a signal has come, and a second one would end the process at once
                stop.take(signal.SIGTERM)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    stop.wait_for_signal()
    stopping.set()
    resources.cut()
    thread.join()
    if errors:
        raise errors[0]


def _status(generation: int, problem: str, unmet: str = "") -> Object:
    """A node's part of a policy's status: `problem` if it is not in force, `unmet` what containers ask for in vain."""
    return {
        "status": "Failure" if problem else "Success",
        "errors": problem or unmet,
        "generation": generation,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
