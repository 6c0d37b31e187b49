"""The surroundings of the engine examined before it starts: programs, networks, kernel, with what to do about each.

Looks, and changes nothing; every row says what was found, in words that can be read alone.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from nri.cri.client import INSTALL
from nri.engine.config import EngineConfig
from nri.engine.images.snapshots import overlay_works
from nri.engine.machine import look
from nri.engine.network import Network, find_network
from nri.engine.spec import Machine
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError
from nri.text import plain

#: ``missing``: the engine cannot do its work; ``limited``: it does, with less, or in other places than usual.
State = Literal["ok", "limited", "missing"]


class Check(NamedTuple):
    """One thing that the engine needs or can use.

    Attributes:
        what: the thing, in a word or two.
        state: how it is.
        found: what was found, with version and place.
        next: what to do if it is not ``ok``.
    """

    what: str
    state: State
    found: str
    next: str = ""


#: A unix socket's path has to fit into the kernel's address: 108 bytes with the zero at its end.
_LONGEST_SOCKET = 107
#: So many files are named in a row.
_NAMED = 5


def examine(config: EngineConfig) -> list[Check]:
    """Look at all that an engine with these settings needs; what is missing has its next step."""
    if config.dry:
        rows = [Check("dry", "ok", "nothing is run, so nothing else is needed"), grpcio()]
    else:
        rows = [*kernel(config, look()), *programs(config), *networks(config)]
    rows += set_aside(config)
    rows.append(_socket("CRI socket", config.socket, "socket"))
    for name in config.domains:
        further = config.of_domain(name)
        rows += set_aside(further)
        rows.append(_socket(f"CRI socket of {name}", further.socket, f"domains.{name}.socket"))
    if not config.nri.disable and not config.nri.disable_connections:
        rows.append(_socket("NRI socket", Path(config.nri.socket_path), "nri.socket_path"))
    return rows


def set_aside(config: EngineConfig) -> Iterator[Check]:
    """Records, images and what was left of pulls that an earlier engine could not use or remove."""
    for room, what in (("records", "records set aside"), ("images", "files set aside")):
        folder = config.root / room / "broken"
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue  # there are none, or they are not ours to see
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            found = f"{folder}: {', '.join(map(plain, names[:_NAMED]))}{more}"
            yield Check(what, "limited", found, "look at them, mend them or remove them")


def lacking(config: EngineConfig) -> list[Check]:
    """The programs and networks that are missing, for an engine that starts: looked for, and none of them run."""
    if config.dry:
        return []
    return [*missing(config), *(row for row in networks(config) if row.state == "missing")]


def _socket(what: str, path: Path, key: str) -> Check:
    """A socket is free, or another process listens there, which has to be that one's."""
    if len(str(path).encode()) > _LONGEST_SOCKET:
        found = f"{path}: {len(str(path).encode())} bytes, and the kernel takes {_LONGEST_SOCKET}"
        return Check(what, "missing", found, f"set {key} to a shorter path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return Check(what, "ok", f"{path} is free")
        except OSError as error:
            return Check(what, "limited", f"{path}: {error.strerror or error}", "run this as root")
    step = f"fine if that is the engine; else stop the other runtime, or set {key} to another path"
    return Check(what, "limited", f"{path}: a process listens there", step)


_TIMEOUT_S = 10.0
_VERSION = re.compile(r"\b(\d+\.\d+[\w.+~-]*)")


def programs(config: EngineConfig, root: Path = Path("/")) -> Iterator[Check]:
    """The rows of OCI runtimes, conmon, skopeo, umoci and Python's grpcio."""
    yield grpcio()
    there = {name: shutil.which(runtime.path) for name, runtime in config.runtimes.items()}
    for name, runtime in config.runtimes.items():
        needed = name == config.default_runtime
        others = [other for other, path in there.items() if path and other != name]
        choice = f', or set default_runtime = "{others[0]}"' if needed and others else ""
        row = program(f"OCI runtime {name}", runtime.path, needed=needed, more=choice)
        yield _hybrid(row, name, root) if row.state == "ok" else row
    for what, name in _tools(config):
        yield program(what, name)


def missing(config: EngineConfig) -> Iterator[Check]:
    """The rows of needed programs that are not there, without running those that are."""
    runtime = config.runtimes[config.default_runtime]
    for what, name in ((f"OCI runtime {config.default_runtime}", runtime.path), *_tools(config)):
        if shutil.which(name) is None:
            yield absent(what, name)


def _tools(config: EngineConfig) -> tuple[tuple[str, str], ...]:
    return (
        ("conmon", config.conmon),
        ("skopeo, for images", config.images.skopeo),
        ("umoci, for images", config.images.umoci),
    )


def program(what: str, name: str, *, needed: bool = True, more: str = "") -> Check:
    """The row of one program."""
    path = shutil.which(name)
    if path is None:
        return absent(what, name, needed=needed, more=more)
    found = version_of(path)
    if not found:
        return Check(what, "missing", f"{path} does not say its version", f"try: {path} --version")
    return Check(what, "ok", f"{found}, {path}")


def absent(what: str, name: str, *, needed: bool = True, more: str = "") -> Check:
    """The row of a program that is not there, with the package to install."""
    step = f"apt-get install {Path(name).name}{more}, or name its path in engine.toml"
    if not needed:
        return Check(what, "limited", f"no program {name}: pods with this handler are refused", step)
    return Check(what, "missing", f"no program {name}", step)


def version_of(path: str) -> str:
    """The version that a program prints; "" if it cannot be run or prints none."""
    try:
        output = run([path, "--version"], timeout_s=_TIMEOUT_S, check=False)
    except (EngineError, OSError):
        return ""
    found = _VERSION.search(output.stdout.decode(errors="replace"))
    return found[1] if found and output.code == 0 else ""


def grpcio() -> Check:
    """The row of the Python package that the CRI needs."""
    try:
        return Check("grpcio, for the CRI", "ok", version("grpcio"))
    except PackageNotFoundError:
        return Check("grpcio, for the CRI", "missing", "not installed", INSTALL)


def _hybrid(row: Check, name: str, root: Path) -> Check:
    """Crun refuses machines that split the controllers between both versions of cgroups."""
    try:
        controllers = (root / "sys/fs/cgroup/unified/cgroup.controllers").read_text().split()
    except OSError:
        return row
    if "crun" not in name or not controllers:
        return row
    found = f"{row.found}; it refuses cgroup v1 with {', '.join(controllers)} on v2"
    return Check(row.what, "limited", found, "boot with systemd.unified_cgroup_hierarchy=1, or use runc")


_SAMPLE = "docs/howto/engine.md has one"
#: Plugins that call iptables.
_FILTERING = {"portmap", "firewall"}


def networks(config: EngineConfig) -> Iterator[Check]:
    """The rows of network configuration, CNI plugins and iptables."""
    folder = config.network.config_dir
    network, complaints = find_network(folder)
    if network is None:
        found = "; ".join(complaints)
        step = f"put a .conflist into {folder} ({_SAMPLE}); pods on the node's network need none"
        yield Check("pod network", "missing", found, step)
        return
    state = Check("pod network", "ok", f'"{network.name}", {network.source}')
    if complaints:
        state = Check(
            state.what, "limited", f"{state.found}; {'; '.join(complaints)}", "mend or remove the other files"
        )
    yield state
    yield _plugins(config, network)
    if _filters(network) and not shutil.which("iptables"):
        yield Check("iptables", "missing", f'no program, and the network "{network.name}" needs it',
                    "apt-get install iptables")  # fmt: skip


def _plugins(config: EngineConfig, network: Network) -> Check:
    """The row of the programs that the network names."""
    folders = config.network.plugin_dirs
    names = [row["type"] for row in network.plugins]
    names += [row["ipam"]["type"] for row in network.plugins if "type" in (row.get("ipam") or {})]
    missing = [name for name in dict.fromkeys(names) if not any((folder / name).is_file() for folder in folders)]
    places = ", ".join(map(str, folders))
    if missing:
        step = "apt-get install containernetworking-plugins, or name their folder in network.plugin_dirs"
        return Check("CNI plugins", "missing", f"{', '.join(missing)} in none of {places}", step)
    used = sorted({str(folder) for folder in folders for name in names if (folder / name).is_file()})
    return Check("CNI plugins", "ok", f"{', '.join(dict.fromkeys(names))} in {', '.join(used)}")


def _filters(network: Network) -> bool:
    """Whether a plugin of the network calls iptables."""
    return any(row["type"] in _FILTERING or row.get("ipMasq") for row in network.plugins)


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
