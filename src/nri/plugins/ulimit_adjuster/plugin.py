"""`ulimit-adjuster`: set the process resource limits that an annotation asks for, for one container each.

One job: read the limits, check them, add them. How annotations are found and read is in `nri.plugins.annotations`.
"""

from __future__ import annotations

from typing import NamedTuple

import nri
from nri.plugins.annotations import find, pod_scope_warning
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

    from nri.plugins.annotations import Annotation

__all__ = ["UlimitAdjuster"]

#: The annotations, of the present domain and of the old one.
KEYS = ("ulimits.noderesource.dev", "ulimits.nri.containerd.io")
PREFIX = "RLIMIT_"
#: The kernel's number for no limit at all.
NO_LIMIT = 2**64 - 1


class Ulimit(NamedTuple):
    """One limit."""

    type: str
    hard: int = 0
    soft: int = 0


class UlimitAdjuster(nri.Plugin):
    """Set process resource limits (ulimits) of containers, by annotations."""

    name = "ulimit-adjuster"
    sets = ("rlimits",)
    annotations: ClassVar[Mapping[str, str]] = {
        f"{key}/container.NAME": "list of {type, hard, soft}: process resource limits" for key in KEYS
    }

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        stray = pod_scope_warning(pod, *KEYS)
        if stray:
            self.log.warning("%s", stray)
        annotation = find(pod, container.name, *KEYS, pod_scope=False)
        if annotation is None:
            return None
        limits = read(annotation)
        for warning in annotation.warnings:
            self.log.warning("%s", warning)
        if not limits:
            return None
        adjustment = nri.Adjustment()
        for place, limit in enumerate(limits):
            with annotation.at(f"[{place}]"):
                adjustment.add_rlimit(limit.type, limit.hard, limit.soft)
        summary = ", ".join(f"{kind.removeprefix(PREFIX)} {soft}:{hard}" for kind, hard, soft in limits)
        self.log.info("limits: %s", plain(summary))
        return adjustment


def read(annotation: Annotation) -> list[Ulimit]:
    """The limits of an annotation, their types as `RLIMIT_` and a name. Reject for what is no limit."""
    limits = []
    for place, (kind, hard, soft) in enumerate(annotation.rows(Ulimit)):
        for key, limit in (("hard", hard), ("soft", soft)):
            if limit < 0:
                step = f"write {NO_LIMIT} for no limit"
                raise annotation.refusal(f"[{place}].{key}", f"must not be below 0: {limit}", step)
        if hard < soft:
            step = "write a hard limit that is as high" if hard else "add 'hard: ...'"
            raise annotation.refusal(f"[{place}]", f"the soft limit, {soft}, is above the hard one, {hard}", step)
        limits.append(Ulimit(PREFIX + kind.upper().removeprefix(PREFIX), hard, soft))
    annotation.refuse_duplicates((f"[{place}].type", limit.type) for place, limit in enumerate(limits))
    return limits


if __name__ == "__main__":
    UlimitAdjuster.main()
