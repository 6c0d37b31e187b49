"""preemption: what its hook cannot do at a creation, which is the network by openEuler's module, and memory.

Rules: levels and their substitutes are the hook's (`nri.agent.rubik.hooks`). Where a kernel has no level of
memory, and has `memory.low`, the memory that online pods ask for is reclaimed last. The network is under control from
the first process of a pod on, once; a node without the module is reported, and so is a pod that became online, because
no level is taken back. Next: `nri.agent.rubik.quota_turbo`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from nri.agent.loops.round import Round, StrategyPod, folder_subject
from nri.agent.rubik.decisions.preemption import bandwidth, decide, protection
from nri.agent.rubik.pods import Pod, offline, pod_of, request_of
from nri.agent.rubik.service import Service, Services
from nri.agent.settings.values import AgentSettings

__all__ = ["NAME", "Preemption"]

NAME: Final = "preemption"
_LOW: Final = "memory.low"
_NET: Final = "/proc/qos"
_ENABLE, _DISABLE = f"{_NET}/net_qos_enable", f"{_NET}/net_qos_disable"


class Preemption(Service):
    """Puts networks under control, and protects memory."""

    name = NAME
    prompt = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._preview = NAME in settings.preview
        #: The folders whose memory is protected.
        self._low: frozenset[str] = frozenset()
        #: The pods as they were, and a process of those whose network is under control.
        self._before: dict[str, Pod] = {}
        self._controlled: dict[str, int] = {}
        self._node = False

    def __len__(self) -> int:
        """The number of folders whose memory is protected."""
        return len(self._low)

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on, or something is to be taken back."""
        return super().wants(rules) or bool(self._low or self._controlled or self._node)

    def changed(self) -> None:
        """Have the network's bandwidth written again."""
        self._node = False

    def round(self, made: Round[Services]) -> None:
        """Look at all pods."""
        resources = self.block.resource if self.on else ()
        self._protect(made, "memory" in resources)
        net = self._network(made, "net" in resources and not self._preview)
        levels = [name for name in resources if name != "net" and made.parts.store.node.has(f"{name}.qos_level")]
        before, self._before = self._before, {}
        for pod in made.pods if self.on else ():
            self._look(made, pod, before.get(pod.uid), [*levels, *(["net"] if net else ())])
        for uid in self._controlled.keys() - ({pod.uid for pod in made.pods} if net and self.on else set()):
            del self._controlled[uid]
            # The process of that time may have ended, and its number be another's.
            if pid := next((_process(made, pod) for pod in made.pods if pod.uid == uid), 0):
                self._write(made, _DISABLE, pid)

    def _look(self, made: Round[Services], pod: StrategyPod, before: Pod | None, resources: Sequence[str]) -> None:
        """Put a pod's network under control, and tell what cannot be done; its levels are the hook's."""
        now = pod_of(pod)
        if now is before and "net" not in resources:  # the same object as long as nothing of the pod has changed
            self._before[pod.uid] = now
            return
        pid = (self._controlled.get(pod.uid) or _process(made, pod)) if "net" in resources else 0

        def read(folder: str, knob: str) -> str | None:
            found = made.read(folder, knob)
            return None if found is None else str(found)

        found = decide(before, now, resources, pid, read)
        made.errors += [f"{NAME}: {pod.key}: {problem}" for problem in found.problems]
        if found.enable and pod.uid not in self._controlled and self._write(made, _ENABLE, found.enable):
            self._controlled[pod.uid] = found.enable
        if not found.problems:
            self._before[pod.uid] = now
        elif before is not None:
            self._before[pod.uid] = before

    def _protect(self, made: Round[Services], on: bool) -> None:
        """Have memory of online pods reclaimed last, where no level does that."""
        node = made.parts.store.node
        on = on and not node.has("memory.qos_level")
        if on and (reason := node.lacks(_LOW)):
            made.cannot(NAME, "memory of online pods has no protection but OOM scores", reason)
            on = False
        online = [pod for pod in made.pods if not offline(pod_of(pod))] if on else []
        wanted = protection(
            (
                pod.folder,
                request_of(pod, "memory"),
                {each.cgroup_parent: _memory(pod, each.name) for each in pod.containers},
            )
            for pod in online
        )
        subjects = {pod.folder: pod.subject() for pod in made.pods}
        subjects |= {each.cgroup_parent: pod.subject(each.name) for pod in made.pods for each in pod.containers}
        for folder, size in {**dict.fromkeys(self._low, 0), **wanted}.items():
            reason = "asked for by online pods" if folder in wanted else "no online pod asks for it any more"
            subject = subjects.get(folder) or folder_subject(folder)
            made.set(subject, folder, _LOW, size, NAME, reason)
        self._low = frozenset(folder for folder, size in wanted.items() if size)

    def _network(self, made: Round[Services], on: bool) -> bool:
        """Set the bandwidth of the node; return whether there is openEuler's module, and it is asked for."""
        if on and not made.parts.root.exists(_ENABLE):
            made.cannot(NAME, "offline pods have a class of traffic, and nothing acts on it", f"there is no {_ENABLE}")
            on = False
        if self._node != on and self._write(made, _ENABLE if on else _DISABLE, os.getpid()):
            self._node = on
            for name, text in (bandwidth(self.block.net) if on else {}).items():
                if not self._write(made, f"{_NET}/{name}", text):
                    self._node = not self._write(made, _DISABLE, os.getpid())
        return self._node

    def _write(self, made: Round[Services], path: str, value: object) -> bool:
        try:
            made.parts.root.write(path, str(value))
        except (OSError, ValueError) as error:
            made.errors.append(f"{NAME}: {path}: {error}")
            return False
        return True


def _memory(pod: StrategyPod, container: str) -> int:
    """The bytes that a container asks for, or its limit; 0 for none."""
    asked = pod.amount(container, "requests", "memory")
    return max(asked if asked >= 0 else pod.amount(container, "limits", "memory"), 0)


def _process(made: Round[Services], pod: StrategyPod) -> int:
    """A process of a pod; 0 if it has none."""
    executor = made.parts.executor
    return next((pid for each in pod.containers for pid in executor.processes(each.cgroup_parent)), 0)
