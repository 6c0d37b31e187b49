"""`ulimit-adjuster`: set process resource limits of single containers, by annotations."""

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

#: The annotations, in the current and in the old domain.
KEYS = ("ulimits.noderesource.dev", "ulimits.nri.containerd.io")
PREFIX = "RLIMIT_"
#: The kernel's value for no limit.
NO_LIMIT = 2**64 - 1


class Ulimit(NamedTuple):
    """A resource limit of an annotation."""

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
    """Read the limits of an annotation, with types such as `RLIMIT_NOFILE`. Raises Reject if a limit is invalid."""
    limits = []
    for place, (kind, hard, soft) in enumerate(annotation.rows(Ulimit)):
        for key, limit in (("hard", hard), ("soft", soft)):
            if limit < 0:
                step = f"write {NO_LIMIT} for no limit"
                raise annotation.refusal(f"[{place}].{key}", f"must not be negative: {limit}", step)
        if hard < soft:
            step = f"raise hard to at least {soft}" if hard else "add 'hard: ...'"
            raise annotation.refusal(f"[{place}]", f"soft limit {soft} exceeds hard limit {hard}", step)
        limits.append(Ulimit(PREFIX + kind.upper().removeprefix(PREFIX), hard, soft))
    annotation.refuse_duplicates((f"[{place}].type", limit.type) for place, limit in enumerate(limits))
    return limits


if __name__ == "__main__":
    UlimitAdjuster.main()
