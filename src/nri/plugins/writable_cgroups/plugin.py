"""`writable-cgroups`: make a container's control group writable to it, by an annotation.

It requires that the host mounts cgroup v2 with `nsdelegate`: then the kernel lets a container create groups below its
own group, but not change its own limits.
"""

from __future__ import annotations

import os

import nri
from nri import mountinfo
from nri.plugins.annotations import find
from nri.stub.program.options import Flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import ClassVar

KEY = "writable-cgroups.noderesource.dev"
#: The mount of the control group in a container.
CGROUPS = "/sys/fs/cgroup"
#: The paths where hosts mount cgroup v2: alone, or next to v1.
HOST_CGROUPS = (CGROUPS, f"{CGROUPS}/unified")
#: The host's mounts in a pod with the host's /proc.
HOST_MOUNTS = "/host/proc/1/mountinfo"
#: The host's mounts on the host itself.
OWN_MOUNTS = mountinfo.OWN_MOUNT_TABLE


class WritableCgroups(nri.Plugin):
    """Make the control group of a container writable to it, by an annotation, if the host delegates safely."""

    name = "writable-cgroups"
    sets: ClassVar[Sequence[str]] = ("mounts./sys/fs/cgroup",)
    annotations: ClassVar[Mapping[str, str]] = {KEY: '"true": the container may write its own control group'}
    flags: ClassVar[Mapping[str, Flag]] = {
        "host-mount-file": Flag(
            "hostMountFile", "FILE", f"the host's mountinfo (default {HOST_MOUNTS}, or the plugin's own)"
        )
    }

    class Config:
        """Keys of the configuration."""

        hostMountFile: str = ""

    config: Config

    def __init__(self) -> None:
        self.delegated = False

    def configure(self) -> None:
        path = self.config.hostMountFile or (HOST_MOUNTS if os.path.exists(HOST_MOUNTS) else OWN_MOUNTS)
        try:
            with open(path, encoding="utf-8", errors="replace") as lines:
                self.delegated = is_delegated(lines)
        except OSError as error:
            self.delegated = False
            self.log.warning("cannot read %s, so no control group is made writable: %s", path, error.strerror or error)
            return
        if self.delegated:
            self.log.info("%s: the host's control groups are mounted with nsdelegate", path)
        else:
            self.log.warning("%s: no cgroup v2 is mounted with nsdelegate, so no control group is made writable", path)

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        annotation = find(pod, container.name, KEY)
        if annotation is None or not annotation.switch():
            return None
        if not self.delegated:
            self.log.warning("annotation %s has no effect: no cgroup v2 is mounted with nsdelegate", annotation.key)
            return None
        mount = next((row for row in container.mounts if row.destination == CGROUPS), None)
        if mount is None:
            raise annotation.refusal("", f"the container has no mount at {CGROUPS}", "remove the annotation")
        options = writable_options(mount.options)
        if options == list(mount.options):
            return None
        self.log.info("%s is writable", CGROUPS)
        return nri.Adjustment().remove_mount(CGROUPS).add_mount(CGROUPS, mount.source, mount.type, options)


def writable_options(options: Sequence[str]) -> list[str]:
    """The mount options with `rw` in place of `ro`."""
    without_ro = [option for option in options if option != "ro"]
    return without_ro if "rw" in without_ro else [*without_ro, "rw"]


def is_delegated(lines: Iterable[str]) -> bool:
    """Whether the first mount of cgroup v2 in mountinfo, see proc(5), has the option `nsdelegate`."""
    mounts = (row for row in mountinfo.parse(lines) if row.kind == "cgroup2" and row.path in HOST_CGROUPS)
    first = next(mounts, None)
    return first is not None and "nsdelegate" in first.options


if __name__ == "__main__":
    WritableCgroups.main()
