"""ioLimit: limits of block I/O of a pod's containers, by disk, as its annotation says.

Rules: an annotation that cannot be read costs that pod the service, is reported once, and the last good one counts. A
disk that is not there is passed over and told; a limit that is no longer asked for is taken away, and one that somebody
else has set, on another disk or of another value, is left alone. Next: `nri.agent.profiles.rubik.services.dyn_memory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nri.agent.loops.round import KnobValue, Round, StrategyPod
from nri.agent.profiles.rubik.configuration import Services
from nri.agent.profiles.rubik.pods import block_device
from nri.agent.profiles.rubik.services.service import Service, readable
from nri.agent.settings.values import AgentSettings
from nri.policies.formulas import UNLIMITED
from nri.policies.rubik.io_limit import ANNOTATION, KEYS, by_knob, numbers

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
        """Look at the pods that ask for limits, and at those that did."""
        kept: dict[tuple[str, str], frozenset[str]] = {}
        leftovers = self.leftovers(made, ANNOTATION)
        for pod in made.pods:
            ends = not leftovers.isdisjoint(each.cgroup_parent for each in pod.containers)
            asked = self._limits(made, pod) if self.on else {}
            left = _unasked(made, pod) if ends else {}
            for each in pod.containers:
                for knob in KEYS.values():
                    place = (each.cgroup_parent, knob)
                    wanted = asked.get(knob, {})
                    had = self._set.get(place, frozenset()) | _in_force(made, place, left.get(knob, {}))
                    gone = dict.fromkeys(had - wanted.keys(), UNLIMITED)
                    if wanted:
                        kept[place] = frozenset(wanted)
                    if wanted or gone:
                        reason = f"annotation {ANNOTATION}" if wanted else "it is no longer asked for"
                        subject = pod.subject(each.name)
                        made.values.append(KnobValue(subject, *place, "", NAME, reason, {**gone, **wanted}))
        self._set = kept

    def _limits(self, made: Round[Services], pod: StrategyPod) -> dict[str, dict[str, int]]:
        """The limits that a pod asks for, by knob and disk."""
        annotations = readable(made, pod, NAME, ANNOTATION, numbers)
        found, wrong = by_knob(numbers(annotations), lambda path: block_device(made.parts.root, path))
        made.errors += [f"{NAME}: {pod.key}: {each}" for each in wrong]
        return found


def _unasked(made: Round[Services], pod: StrategyPod) -> dict[str, dict[str, int]]:
    """The limits that a pod asks a service for that is off, so that nothing is told of them."""
    try:
        return by_knob(numbers(pod.annotations), lambda path: block_device(made.parts.root, path))[0]
    except ValueError:
        return {}


def _in_force(made: Round[Services], place: tuple[str, str], limits: Mapping[str, int]) -> frozenset[str]:
    """The disks that have these limits."""
    found = made.read(*place) if limits else None
    return frozenset(disk for disk in limits if isinstance(found, Mapping) and found.get(disk) == limits[disk])
