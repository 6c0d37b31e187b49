"""`systemd-container`: prepare containers whose first program is systemd, by an annotation.

systemd requires a writable control group, tmpfs on `/run`, `/run/lock` and `/tmp`, the variable `container`, and stops
at SIGRTMIN+3 only.
"""

from __future__ import annotations

import nri
from nri.plugins.annotations import find
from nri.plugins.writable_cgroups.plugin import CGROUPS, WritableCgroups, writable_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import ClassVar

__all__ = ["SystemdContainer"]

KEY = "systemd.noderesource.dev"
#: The annotation that names the stop signal of a container, as image specifications do.
STOP_SIGNAL = "org.opencontainers.image.stopSignal"
#: The signal at which systemd ends all services and itself.
SYSTEMD_STOP = "SIGRTMIN+3"
#: The variable that informs systemd that it runs in a container.
VARIABLE = "container"
#: The tmpfs mounts: path -> mode. Their memory counts as the container's.
TMPFS = {"/run": "0755", "/run/lock": "0755", "/tmp": "1777"}  # noqa: S108 - paths in the container
_OPTIONS = ("rw", "nosuid", "nodev")
#: The runtimes that take the stop signal from the annotation. Others take it from the pod or the image.
_RUNTIMES_WITH_STOP_SIGNAL = ("nri-engine",)


class SystemdContainer(WritableCgroups):
    """Prepare a container for systemd: control group, tmpfs, variable and stop signal."""

    name = "systemd-container"
    sets: ClassVar[Sequence[str]] = (
        f"mounts.{CGROUPS}", *(f"mounts.{path}" for path in TMPFS), f"env.{VARIABLE}", f"annotations.{STOP_SIGNAL}",
    )  # fmt: skip
    annotations: ClassVar[Mapping[str, str]] = {KEY: '"true": the container runs systemd as its first program'}

    def configure(self) -> None:
        super().configure()
        if self.runtime.name not in _RUNTIMES_WITH_STOP_SIGNAL:
            self.log.info(
                "%s takes the stop signal from the pod (lifecycle.stopSignal) or the image, not from an annotation:"
                " set %s there",
                self.runtime.name or "the runtime", SYSTEMD_STOP,
            )  # fmt: skip

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        annotation = find(pod, container.name, KEY)
        if annotation is None or not annotation.switch():
            return None
        adjustment = nri.Adjustment()
        mounts = {mount.destination.rstrip("/"): mount for mount in container.mounts}
        for path, mode in TMPFS.items():
            if path not in mounts:
                adjustment.add_mount(path, "tmpfs", "tmpfs", [*_OPTIONS, f"mode={mode}"])
        cgroups = mounts.get(CGROUPS)
        if cgroups is None or not self.delegated:
            cause = "the container has no mount there" if self.delegated else "no cgroup v2 is mounted with nsdelegate"
            self.log.warning("%s stays read-only, so systemd may not start: %s", CGROUPS, cause)
        elif (options := writable_options(cgroups.options)) != list(cgroups.options):
            adjustment.remove_mount(CGROUPS).add_mount(CGROUPS, cgroups.source, cgroups.type, options)
        if not any(entry.startswith(f"{VARIABLE}=") for entry in container.env):
            adjustment.add_env(VARIABLE, "oci")
        return adjustment.add_annotation(STOP_SIGNAL, SYSTEMD_STOP)


if __name__ == "__main__":
    SystemdContainer.main()
