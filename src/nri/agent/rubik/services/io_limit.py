"""ioLimit: limits of block I/O of a pod's containers, by disk, as its annotation says.

A row of the annotation that cannot be read, or whose disk does not exist, is reported and costs the other rows nothing;
its disk keeps what it has. An annotation that is not JSON costs that pod the service, is reported once, and the last
good one counts. A limit that is no longer asked for is taken away; one that somebody else has set, on another disk or
of another value, is left alone. Next: `nri.agent.rubik.services.dyn_memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nri.agent.loops.round import KnobValue, Round, StrategyPod
from nri.agent.rubik.decisions.io_limit import ANNOTATION, KNOBS, DiskLimits, disk_limits, parse
from nri.agent.rubik.machine import block_device
from nri.agent.rubik.service import Service, Services, readable
from nri.agent.settings.values import AgentSettings
from nri.policies.formulas import UNLIMITED

__all__ = ["NAME", "IoLimit"]

NAME: Final = "ioLimit"


class IoLimit(Service):
    """Sets limits of block I/O."""

    name = NAME
    prompt = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        #: The disks that have a limit of ours, by cgroup and knob.
        self._set: dict[tuple[str, str], frozenset[str]] = {}

    def __len__(self) -> int:
        """The number of knobs that have a limit of ours."""
        return len(self._set)

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on, or limits are to go."""
        return super().wants(rules) or self.was_on

    def round(self, made: Round[Services]) -> None:
        """Set the limits that pods ask for, and take away those that they no longer ask for."""
        kept: dict[tuple[str, str], frozenset[str]] = {}
        leftovers = self.leftovers(made, ANNOTATION)
        for pod in made.pods:
            ends = not leftovers.isdisjoint(container.cgroup_parent for container in pod.containers)
            asked = self._limits(made, pod) if self.on else DiskLimits({}, {}, [])
            left = _unasked(made, pod) if ends else {}
            for container in pod.containers:
                for knob in KNOBS:
                    place = (container.cgroup_parent, knob)
                    wanted = asked.limits.get(knob, {})
                    had = self._set.get(place, frozenset()) | _in_force(made, place, left.get(knob, {}))
                    unclear = had & asked.unclear.get(knob, set()) - wanted.keys()
                    gone = dict.fromkeys(had - wanted.keys() - unclear, UNLIMITED)
                    if wanted or unclear:
                        kept[place] = frozenset(wanted) | unclear
                    if wanted or gone:
                        reason = f"annotation {ANNOTATION}" if wanted else "it is no longer asked for"
                        subject = pod.subject(container.name)
                        made.values.append(KnobValue(subject, *place, "", NAME, reason, {**gone, **wanted}))
        self._set = kept

    def _limits(self, made: Round[Services], pod: StrategyPod) -> DiskLimits:
        """The limits that a pod asks for, by knob and disk."""
        annotations = readable(made, pod, NAME, ANNOTATION, parse)
        asked = disk_limits(parse(annotations), lambda path: block_device(made.parts.root, path))
        made.errors += [f"{NAME}: {pod.key}: {ANNOTATION}: {problem}" for problem in asked.problems]
        return asked


def _unasked(made: Round[Services], pod: StrategyPod) -> dict[str, dict[str, int]]:
    """The limits that a pod asks of a service that is off, so that nothing is reported of them."""
    try:
        return disk_limits(parse(pod.annotations), lambda path: block_device(made.parts.root, path)).limits
    except ValueError:
        return {}


def _in_force(made: Round[Services], place: tuple[str, str], limits: Mapping[str, int]) -> frozenset[str]:
    """The disks that have these limits."""
    found = made.read(*place) if limits else None
    return frozenset(disk for disk in limits if isinstance(found, Mapping) and found.get(disk) == limits[disk])
