"""Check what the engine requires from this machine: programs, networks, kernel features. Nothing is changed."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from nri.cri.client import INSTALL
from nri.engine.config import EngineConfig
from nri.engine.images.overlay import overlay_works
from nri.engine.machine import detect_machine
from nri.engine.network import Network, find_networks
from nri.engine.spec import Machine
from nri.engine.support.command import run
from nri.engine.support.errors import EngineError
from nri.text import plain

#: ``missing``: the engine cannot work without it; ``limited``: the engine works, with restrictions.
State = Literal["ok", "limited", "missing"]


class Check(NamedTuple):
    """The result of one check.

    Attributes:
        what: the requirement, in a few words.
        state: the result.
        found: details, for example the version and path of a program.
        next: what to do if `state` is not ``ok``.
    """

    what: str
    state: State
    found: str
    next: str = ""


#: The longest path of a unix socket: the kernel's address has 108 bytes including the zero at its end.
_MAX_SOCKET_PATH_BYTES = 107
#: The maximum number of file names in a row.
_MAX_NAMES = 5


def examine(config: EngineConfig) -> list[Check]:
    """Check everything that an engine with these settings requires."""
    if config.dry:
        rows = [Check("dry", "ok", "a dry engine runs no containers, so it requires only grpcio"), grpcio()]
    else:
        rows = [*kernel(config, detect_machine()), *programs(config), *networks(config)]
    rows += set_aside(config)
    rows.append(_socket("CRI socket", config.socket, "socket"))
    for name in config.domains:
        domain_config = config.of_domain(name)
        rows += set_aside(domain_config)
        rows.append(_socket(f"CRI socket of {name}", domain_config.socket, f"domains.{name}.socket"))
    if not config.nri.disable and not config.nri.disable_connections:
        rows.append(_socket("NRI socket", Path(config.nri.socket_path), "nri.socket_path"))
    return rows


def set_aside(config: EngineConfig) -> Iterator[Check]:
    """Return rows for records and image files that an earlier engine could not use, or could not remove."""
    for subfolder, what in (("records", "records set aside"), ("images", "files set aside")):
        folder = config.root / subfolder / "broken"
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue  # the folder does not exist, or this user may not read it
        if names:
            more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
            summary = f"{folder}: {', '.join(map(plain, names[:_MAX_NAMES]))}{more}"
            yield Check(what, "limited", summary, "inspect them, then repair or remove them")


def missing_parts(config: EngineConfig) -> list[Check]:
    """Return rows for missing programs and networks. No program is run, so that an engine can call it at its start."""
    if config.dry:
        return []
    return [*missing(config), *(row for row in networks(config) if row.state == "missing")]


def _socket(what: str, path: Path, key: str) -> Check:
    """Return the row of a socket, which is free or in use by a process."""
    if len(str(path).encode()) > _MAX_SOCKET_PATH_BYTES:
        problem = f"{path}: the path has {len(str(path).encode())} bytes; the limit is {_MAX_SOCKET_PATH_BYTES}"
        return Check(what, "missing", problem, f"set {key} to a shorter path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return Check(what, "ok", f"{path} is free")
        except OSError as error:
            return Check(what, "limited", f"{path}: {error.strerror or error}", "run this as root")
    step = f"if this process is not the engine, stop it, or set {key} to another path"
    return Check(what, "limited", f"{path}: a process already listens on this socket", step)


#: The time limit for a program that prints its version.
_TIMEOUT_S = 10.0
_VERSION = re.compile(r"\b(\d+\.\d+[\w.+~-]*)")


def programs(config: EngineConfig, root: Path = Path("/")) -> Iterator[Check]:
    """Return the rows of OCI runtimes, conmon, skopeo, umoci and the Python package grpcio."""
    yield grpcio()
    paths = {name: shutil.which(runtime.path) for name, runtime in config.runtimes.items()}
    for name, runtime in config.runtimes.items():
        is_default = name == config.default_runtime
        alternatives = [other for other, path in paths.items() if path and other != name]
        choice = f', or set default_runtime = "{alternatives[0]}"' if is_default and alternatives else ""
        row = program(f"OCI runtime {name}", runtime.path, required=is_default, more=choice)
        yield _hybrid(row, name, root) if row.state == "ok" else row
    for what, name in _tools(config):
        yield program(what, name)


def missing(config: EngineConfig) -> Iterator[Check]:
    """Return the rows of required programs that are missing. No program is run."""
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


def program(what: str, name: str, *, required: bool = True, more: str = "") -> Check:
    """The row of one program."""
    path = shutil.which(name)
    if path is None:
        return absent(what, name, required=required, more=more)
    version_text = version_of(path)
    if not version_text:
        return Check(what, "missing", f"{path} does not print its version", f"try: {path} --version")
    return Check(what, "ok", f"{version_text}, {path}")


def absent(what: str, name: str, *, required: bool = True, more: str = "") -> Check:
    """The row of a missing program, with the package to install."""
    step = f"apt-get install {Path(name).name}{more}, or set its path in engine.toml"
    if not required:
        return Check(what, "limited", f"program {name} not found: pods with this handler are rejected", step)
    return Check(what, "missing", f"program {name} not found", step)


def version_of(path: str) -> str:
    """Return the version that a program prints, or "" if it fails or prints no version."""
    try:
        output = run([path, "--version"], timeout_s=_TIMEOUT_S, check=False)
    except (EngineError, OSError):
        return ""
    match = _VERSION.search(output.stdout.decode(errors="replace"))
    return match[1] if match and output.code == 0 else ""


def grpcio() -> Check:
    """The row of grpcio, the Python package that the CRI requires."""
    try:
        return Check("grpcio, for the CRI", "ok", version("grpcio"))
    except PackageNotFoundError:
        return Check("grpcio, for the CRI", "missing", "not installed", INSTALL)


def _hybrid(row: Check, name: str, root: Path) -> Check:
    """Change the state of crun to limited on a hybrid machine, where crun refuses cgroup v1 if v2 has controllers."""
    try:
        controllers = (root / "sys/fs/cgroup/unified/cgroup.controllers").read_text().split()
    except OSError:
        return row
    if "crun" not in name or not controllers:
        return row
    problem = f"{row.found}; crun refuses cgroup v1 while cgroup v2 has {', '.join(controllers)}"
    return Check(row.what, "limited", problem, "boot with systemd.unified_cgroup_hierarchy=1, or use runc")


_EXAMPLE = "docs/howto/engine.md has an example"
#: CNI plugins that call iptables.
_FILTERING = {"portmap", "firewall"}


def networks(config: EngineConfig) -> Iterator[Check]:
    """The rows of network configuration, CNI plugins and iptables."""
    folder = config.network.config_dir
    pod_networks, complaints = find_networks(folder, config.network.max_conf_num)
    if not pod_networks:
        problems = "; ".join(complaints)
        step = f"put a .conflist file into {folder} ({_EXAMPLE}). Pods on the node's network do not require it"
        yield Check("pod network", "missing", problems, step)
        return
    names = "; ".join(f'"{network.name}", {network.source}' for network in pod_networks)
    state = Check("pod network", "ok", names)
    if complaints:
        state = Check(state.what, "limited", f"{state.found}; {'; '.join(complaints)}", "fix or remove the other files")
    yield state
    yield _plugins(config, pod_networks)
    filtering = next((network.name for network in pod_networks if _filters(network)), "")
    if filtering and not shutil.which("iptables"):
        yield Check("iptables", "missing", f'program not found; the network "{filtering}" requires it',
                    "apt-get install iptables")  # fmt: skip


def _plugins(config: EngineConfig, networks: Sequence[Network]) -> Check:
    """Return the row of the CNI plugins that the networks' configurations name."""
    folders = config.network.plugin_dirs
    rows = [row for network in networks for row in network.plugins]
    names = [row["type"] for row in rows] + [row["ipam"]["type"] for row in rows if "type" in (row.get("ipam") or {})]
    missing = [name for name in dict.fromkeys(names) if not any((folder / name).is_file() for folder in folders)]
    places = ", ".join(map(str, folders))
    if missing:
        step = "apt-get install containernetworking-plugins, or set their folder in network.plugin_dirs"
        return Check("CNI plugins", "missing", f"{', '.join(missing)} not found in {places}", step)
    used = sorted({str(folder) for folder in folders for name in names if (folder / name).is_file()})
    return Check("CNI plugins", "ok", f"{', '.join(dict.fromkeys(names))} in {', '.join(used)}")


def _filters(network: Network) -> bool:
    """Return whether a plugin of the network calls iptables."""
    return any(row["type"] in _FILTERING or row.get("ipMasq") for row in network.plugins)


_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
#: Capabilities without which the engine cannot create containers.
_NEEDED = ("CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_MKNOD", "CAP_SYS_CHROOT")


def kernel(config: EngineConfig, machine: Machine, root: Path = Path("/")) -> Iterator[Check]:
    """Return the rows of kernel features and of this process's rights. `root` is the folder with /proc and /sys."""
    uid = os.geteuid()
    step = "run this with sudo, or use --dry DIR, which requires no root and runs no containers"
    yield Check("user", "ok", "root") if uid == 0 else Check("user", "missing", f"uid {uid}, not root", step)
    yield _capabilities(machine)
    yield _cgroups(machine, root)
    if config.cgroups.driver == "systemd" and not (root / "run/systemd/system").is_dir():
        yield Check("systemd", "missing", 'cgroups.driver is "systemd", but systemd does not run here',
                    'set cgroups.driver = "cgroupfs"')  # fmt: skip
    missing = [name for name in _NAMESPACES if not (root / "proc/self/ns" / name).exists()]
    if missing:
        yield Check(
            "namespaces", "missing", f"the kernel has no {', '.join(missing)}", "use a kernel with these namespaces"
        )
    else:
        yield Check("namespaces", "ok", ", ".join(_NAMESPACES))
    yield _overlay(config)
    yield _security(machine)


def _capabilities(machine: Machine) -> Check:
    missing = [name for name in _NEEDED if name not in machine.capabilities]
    if missing:
        step = "run this on the host, or in a privileged container" if os.geteuid() == 0 else "run this as root"
        return Check("capabilities", "missing", f"without {', '.join(missing)}", step)
    if "CAP_SYS_RESOURCE" not in machine.capabilities:
        problem = "no CAP_SYS_RESOURCE: containers cannot get an OOM score below the engine's, or raised limits"
        return Check("capabilities", "limited", problem, "grant CAP_SYS_RESOURCE, if containers request these")
    return Check("capabilities", "ok", f"{len(machine.capabilities)}, including all required ones")


def _cgroups(machine: Machine, root: Path) -> Check:
    """Return the row of cgroups. On a hybrid machine some controllers are in version 1, and some in version 2."""
    top = root / "sys/fs/cgroup"
    if machine.cgroup_v2:
        name, controllers = "v2", (top / "cgroup.controllers").read_text().split()
    else:
        name = "v1 and v2 (hybrid)" if (top / "unified").is_dir() else "v1"
        controllers = [path.name for path in top.iterdir() if path.is_dir()] if top.is_dir() else []
        controllers = [part for controller in controllers for part in controller.split(",")]
    missing = [controller for controller in _CONTROLLERS if controller not in controllers]
    if missing:
        return Check(
            "cgroups", "missing", f"{name}, without {', '.join(missing)}", "mount or delegate these controllers"
        )
    if not machine.hugetlb:
        summary = f"{name}, without limits of huge pages"
        return Check("cgroups", "limited", summary, "if containers limit huge pages, mount the controller hugetlb")
    return Check("cgroups", "ok", name)


def _overlay(config: EngineConfig) -> Check:
    """Return the row of overlayfs, after a test mount in the images' folder.

    Without overlayfs the engine copies an image's files for each container.
    """
    folder = config.root
    while not folder.is_dir():
        folder = folder.parent
    what, mode = "overlayfs", config.images.snapshots
    if mode == "copy":
        return Check(what, "ok", 'not used: images.snapshots is "copy"')
    if os.geteuid() != 0:
        return Check(what, "limited", "only root can test it", "run this as root")
    try:
        works = overlay_works(folder)
    except (OSError, EngineError):
        works = False
    if works:
        return Check(what, "ok", f"works in {folder}")
    step = "load the module overlay, or put root on ext4 or xfs"
    if mode == "overlay":
        return Check(what, "missing", f"does not work in {folder}", f'{step}; or set images.snapshots = "auto"')
    return Check(what, "limited", f"does not work in {folder}, so each container gets a copy of its image", step)


def _security(machine: Machine) -> Check:
    modules = [name for name in ("seccomp", "apparmor", "selinux") if getattr(machine, name)]
    if not machine.seccomp:
        return Check("seccomp", "limited", "the kernel does not filter system calls", "use a kernel that does")
    return Check("security modules", "ok", ", ".join(modules))
