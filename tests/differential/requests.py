"""Draw a runtime's requests: pods and containers that come, change and go, with plugins that answer anything.

A `Story` is what one thread of a runtime asks, request by request; what comes next hangs on what became of the last
one. What plugins answer is drawn as for the merge (`generate`, `mix`) and stands in the pod's annotations, where
`fieldplugin` finds it. Answers to which the reference has more than one outcome, or panics, are drawn again: the
oracle is asked. Tame stories leave out what default mode is documented to do otherwise. Next: `attached`.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from google.protobuf.json_format import ParseDict

from nri.api import messages as m
from tests.differential.generate import Case, draw_case
from tests.differential.mix import mix_case
from tests.differential.oracle import Oracle
from tests.differential.tame import tame_case
from tests.support.sides import Outcome, Request

#: The plugins that answer what the request says, by index.
ANSWERING = {"10": "logger", "30": "agent", "40": "refuser", "50": "slow"}
OPS = {"CreateContainer": "create", "UpdateContainer": "update", "StopContainer": "stop"}
#: What follows what in the life of a container.
NEXT = {
    "": "CreateContainer",
    "CreateContainer": "PostCreateContainer",
    "PostCreateContainer": "StartContainer",
    "StartContainer": "PostStartContainer",
    "UpdateContainer": "PostUpdateContainer",
    "StopContainer": "RemoveContainer",
}
#: How often a drawn case is asked; what is seldom otherwise is found out when it comes up (`plugins`).
TIMES = 4
#: Percent of requests to events without an answer that are refused, and of all that one plugin is slow with.
REFUSED, SLOW = 4, 3


class _Pod:
    def __init__(self, name: str) -> None:
        self.base = m.PodSandbox(id=name, name=f"name-{name}", uid=f"uid-{name}", namespace="stories")
        self.last = ""
        self.containers: dict[str, _Container] = {}


class _Container:
    def __init__(self, name: str) -> None:
        self.name = name
        self.message = m.Container()
        self.last = ""


class Story:
    """Requests without end. `next` and `done` are called in turn.

    Args:
        seed: also the beginning of all names.
        late_ms: how long a plugin takes that answers too late.
        late: how many answers are too late, early in the story.
    """

    def __init__(self, oracle: Oracle, seed: str, *, tame: bool, late_ms: int = 0, late: int = 0) -> None:
        self._oracle, self._seed, self._tame = oracle, seed, tame
        self._late_ms, self._late = late_ms, late
        self._random = Random(seed)
        self._pods: list[_Pod] = []
        self._count = 0
        self._never = f"{seed}-never"
        self._gone = [self._never]

    # -- what comes next ----------------------------------------------------------------------------------------------

    def next(self) -> Request:
        """The next request."""
        self._count += 1
        if not self._pods or (len(self._pods) < 5 and self._random.random() < 0.08):
            self._pods.append(_Pod(f"{self._seed}-p{self._count}"))
        pod = self._random.choice(self._pods)
        container = self._chosen(pod)
        event = self._pod_event(pod) if container is None else self._container_event(container)
        return self._request(event, pod, container)

    def _chosen(self, pod: _Pod) -> _Container | None:
        """A container of the pod, perhaps a new one; None if something is to become of the pod itself."""
        if not pod.last or pod.last == "StopPodSandbox":
            return None
        if len(pod.containers) < 3 and self._random.random() < 0.25:
            name = f"{self._seed}-c{self._count}"
            pod.containers[name] = _Container(name)
        if not pod.containers or self._random.random() < 0.1:
            return None
        return self._random.choice(list(pod.containers.values()))

    def _container_event(self, container: _Container) -> str:
        event = NEXT.get(container.last)
        if event is None:
            event = self._random.choice(("UpdateContainer", "UpdateContainer", "StopContainer"))
        return event

    def _pod_event(self, pod: _Pod) -> str:
        if not pod.last:
            return "RunPodSandbox"
        if pod.last == "UpdatePodSandbox":
            return "PostUpdatePodSandbox"
        if pod.last == "StopPodSandbox":
            return "RemovePodSandbox"
        return "UpdatePodSandbox" if pod.containers or self._random.random() < 0.5 else "StopPodSandbox"

    def done(self, request: Request, outcome: Outcome) -> None:
        """What became of the request that `next` gave."""
        pod = next(entry for entry in self._pods if entry.base.id == request.pod.id)
        if request.container is None:
            pod.last = request.event
            if request.event == "RemovePodSandbox":
                self._pods.remove(pod)
            return
        container = pod.containers[request.container.id]
        container.last = request.event
        if request.event == "RemoveContainer" or (request.event == "CreateContainer" and outcome.error is not None):
            del pod.containers[container.name]
            self._gone = [*self._gone[-9:], container.name]

    # -- what plugins answer ------------------------------------------------------------------------------------------

    def _request(self, event: str, pod: _Pod, container: _Container | None) -> Request:
        message = m.PodSandbox()
        message.CopyFrom(pod.base)
        message.annotations["request.test/id"] = f"{self._seed}-{self._count}"
        resources, overhead = None, None
        if event in OPS:
            assert container is not None
            resources = self._answers(event, message, container)
        else:
            if event == "UpdatePodSandbox":
                resources, overhead = m.LinuxResources(), m.LinuxResources(cpu=m.LinuxCPU(cpus="0-1"))
            if self._percent(REFUSED) and not (self._tame and event.startswith("Remove")):
                self._step(message, self._random.choice(list(ANSWERING.values())), event, {"error": f"no {event}"})
        self._slow(event, message)
        return Request(event, message, None if container is None else container.message, resources, overhead)

    def _slow(self, event: str, pod: m.PodSandbox) -> None:
        """Have a plugin take its time, perhaps too much."""
        delay_ms = self._random.randrange(1, 12) if self._percent(SLOW) else 0
        if self._late and event in OPS and self._count > 20:
            self._late, delay_ms = self._late - 1, self._late_ms
            for key in [key for key in pod.annotations if ".test/" in key and key.endswith(event)]:
                if not key.startswith("slow"):
                    del pod.annotations[key]  # so that the request gets as far as that
        if delay_ms:
            step = json.loads(pod.annotations.get(f"slow.test/{event}", "{}"))
            self._step(pod, "slow", event, {**step, "delay_ms": delay_ms})

    def _percent(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    @staticmethod
    def _step(pod: m.PodSandbox, plugin: str, event: str, step: Any) -> None:
        pod.annotations[f"{plugin}.test/{event}"] = json.dumps(step)

    def _answers(self, event: str, pod: m.PodSandbox, container: _Container) -> m.LinuxResources | None:
        """Have plugins answer; returns the resources that an update asks for."""
        case = next(case for case in self._cases(event, container) if self._certain(case))
        if event == "CreateContainer":
            ParseDict(case["container"], container.message)
            if self._percent(6):
                self._step(pod, "validator", "ValidateContainerAdjustment", {"error": "not this one"})
        for plugin in case["plugins"]:
            step = {key: plugin[key] for key in ("adjust", "update", "error") if plugin.get(key)}
            self._step(pod, plugin["name"], event, step)
        pod.annotations["cpus.test/exclusive"] = str(self._random.choice((0, 0, 0, 1, 2)))
        return ParseDict(case["resources"], m.LinuxResources()) if "resources" in case else None

    def _cases(self, event: str, container: _Container) -> Iterator[Case]:
        op = OPS[event]
        while True:
            draw = mix_case if self._percent(25) else draw_case
            case = draw(self._random, "case")
            if case["op"] == op:
                case = self._fitted(case, container)
                yield tame_case(case, self._alive()) if self._tame else case

    def _alive(self) -> set[str]:
        return {name for pod in self._pods for name, entry in pod.containers.items() if entry.last}

    def _fitted(self, case: Case, container: _Container) -> Case:
        """The case with our plugins, and with our containers in place of those that it names."""
        other_entries = sorted(self._alive())
        # The allocator still names some that are gone: in default mode that is no conflict.
        removed = [self._never] if self._tame else self._gone
        names = {case["container"]["id"]: container.name, "": ""}
        names |= {f"other{n}": self._random.choice([*other_entries, *other_entries, *removed]) for n in (1, 2)}
        plugins = sorted(case["plugins"], key=lambda entry: entry["index"])[: len(ANSWERING)]
        indices = sorted(self._random.sample(sorted(ANSWERING), len(plugins)))
        for plugin, index in zip(plugins, indices, strict=True):
            plugin["index"], plugin["name"] = index, ANSWERING[index]
            for update in plugin.get("update", ()):
                if "container_id" in update:
                    update["container_id"] = names.get(update["container_id"], update["container_id"])
            plugin.pop("evict", None)  # the stub has no way to say it
        message = {**case["container"], "id": container.name, "pod_sandbox_id": "pod", "name": "main"}
        return {**case, "container": message, "plugins": plugins}

    def _certain(self, case: Case) -> bool:
        """Whether the reference has one answer, and does not panic."""
        answers = self._oracle.answers(case, TIMES)
        return len(answers) == 1 and "panic" not in answers[0]
