"""The kernel and the rights of this process: user, cgroups, namespaces, overlayfs, capabilities, seccomp.

Next: :mod:`nri.engine.check.examination`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nri.engine.check.rows import Check
from nri.engine.config import EngineConfig
from nri.engine.images.snapshots import overlay_works
from nri.engine.spec import Machine
from nri.engine.support.errors import EngineError

__all__ = ["kernel"]

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
#: Without these no container can be made.
_NEEDED = ("CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_MKNOD", "CAP_SYS_CHROOT")


def kernel(config: EngineConfig, machine: Machine, root: Path = Path("/")) -> Iterator[Check]:
    """The rows of what the kernel can do and this process may. `root` is where /proc and /sys are looked for."""
    uid = os.geteuid()
    step = "run it with sudo; with --dry DIR it needs no root, and runs nothing"
    yield Check("user", "ok", "root") if uid == 0 else Check("user", "missing", f"uid {uid}, not root", step)
    yield _capabilities(machine)
    yield _cgroups(machine, root)
    if config.cgroups.driver == "systemd" and not (root / "run/systemd/system").is_dir():
        yield Check("systemd", "missing", 'cgroups.driver is "systemd", and systemd does not run here',
                    'set cgroups.driver = "cgroupfs"')  # fmt: skip
    missing = [name for name in _NAMESPACES if not (root / "proc/self/ns" / name).exists()]
    if missing:
        yield Check("namespaces", "missing", f"the kernel has no {', '.join(missing)}", "use a kernel that has them")
    else:
        yield Check("namespaces", "ok", ", ".join(_NAMESPACES))
    yield _overlay(config)
    yield _security(machine)


def _capabilities(machine: Machine) -> Check:
    missing = [name for name in _NEEDED if name not in machine.capabilities]
    if missing:
        step = "start it outside of a container, or in a privileged one" if os.geteuid() == 0 else "run it as root"
        return Check("capabilities", "missing", f"without {', '.join(missing)}", step)
    if "CAP_SYS_RESOURCE" not in machine.capabilities:
        found = "no CAP_SYS_RESOURCE: OOM scores below the engine's own and raised limits are left out"
        return Check("capabilities", "limited", found, "grant CAP_SYS_RESOURCE, if containers need that")
    return Check("capabilities", "ok", f"{len(machine.capabilities)}, all that are needed among them")


def _cgroups(machine: Machine, root: Path) -> Check:
    """The version and the controllers, which on a hybrid machine are in both."""
    top = root / "sys/fs/cgroup"
    if machine.cgroup_v2:
        name, controllers = "v2", (top / "cgroup.controllers").read_text().split()
    else:
        name = "v1 and v2 (hybrid)" if (top / "unified").is_dir() else "v1"
        controllers = [path.name for path in top.iterdir() if path.is_dir()] if top.is_dir() else []
        controllers = [part for controller in controllers for part in controller.split(",")]
    missing = [controller for controller in _CONTROLLERS if controller not in controllers]
    if missing:
        return Check("cgroups", "missing", f"{name}, without {', '.join(missing)}", "mount or delegate them")
    if not machine.hugetlb:
        found = f"{name}, no limits of huge pages"
        return Check("cgroups", "limited", found, "nothing, unless containers limit huge pages")
    return Check("cgroups", "ok", name)


def _overlay(config: EngineConfig) -> Check:
    """Whether root file systems need not be copied: tried where the images are to be."""
    folder = config.root
    while not folder.is_dir():
        folder = folder.parent
    what, wanted = "overlayfs", config.images.snapshots
    if wanted == "copy":
        return Check(what, "ok", 'not used: images.snapshots is "copy"')
    if os.geteuid() != 0:
        return Check(what, "limited", "only root can try it", "run this as root")
    try:
        works = overlay_works(folder)
    except (OSError, EngineError):
        works = False
    if works:
        return Check(what, "ok", f"works in {folder}")
    step = "load the module overlay, or put root on ext4 or xfs"
    if wanted == "overlay":
        return Check(what, "missing", f"does not work in {folder}", f'{step}; or set images.snapshots = "auto"')
    return Check(what, "limited", f"does not work in {folder}: each container gets a copy of its image", step)


def _security(machine: Machine) -> Check:
    found = [name for name in ("seccomp", "apparmor", "selinux") if getattr(machine, name)]
    if not machine.seccomp:
        return Check("seccomp", "limited", "the kernel does not filter system calls", "use a kernel that does")
    return Check("security modules", "ok", ", ".join(found))
