"""The guest: QEMU with Debian's kernel on this machine's root directory, a command in it, and its exit code.

Two processors, each a NUMA node with half of the memory; cgroup v2 only; an empty disk, /dev/vda. The command's output
is passed on while it runs.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.runtimes import debs
from tools.runtimes.machine import MissingError, Say, architecture, cache_dir, cache_lock, find_tool, last_line

#: Debian 12 has it in qemu-system-common, later ones in its own package.
DAEMONS = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")
START_TIMEOUT_S = 20.0
# $1: where the root is put together; then: file systems to put there, `--`, and the command.
_SCRIPT = """
set -e
target=$1; shift
while [ "$1" != -- ]; do
    mount --bind "$1" "$target$1"
    mount -o remount,bind,ro "$target$1"
    shift
done
shift
ulimit -n "$(ulimit -H -n)"
exec "$@"
"""


def start_sharing(folder: Path, needed: Iterable[Path]) -> subprocess.Popen[bytes]:
    """Serve the root on `folder`/share.sock, with the file systems that hold the `needed` paths.

    Ends with this process at the latest. `MissingError` has the reason.
    """
    daemon = next((path for path in DAEMONS if find_tool(path)), None)
    if daemon is None:
        raise MissingError("virtiofsd", "install the package qemu-system-common (Debian 12) or virtiofsd")
    target, socket = folder / "root", folder / "share.sock"
    target.mkdir()
    # A file handle for each file that the guest has seen; without readdirplus these are fewer.
    options = f"source={target},cache=always,sandbox=chroot,no_readdirplus"
    served = [daemon, f"--socket-path={socket}", "--rlimit-nofile=0", "-o", options]
    with open(folder / "share.log", "wb") as log:
        process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"),
                *("sh", "-c", _SCRIPT, "share", str(target), *_file_systems(needed), "--", *served),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise MissingError("a root for the guest", f"{daemon}: {last_line((folder / 'share.log').read_text())}")
        time.sleep(0.01)
    return process


def _file_systems(needed: Iterable[Path]) -> list[str]:
    """The mount points of the root and of these paths, each after those above it."""
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    mount_points = {"/"}
    for path in (*needed, Path(sys.prefix), Path(sys.base_prefix)):
        real = path.resolve()
        mount_points |= {str(folder) for folder in (real, *real.parents) if str(folder) in mounts}
    return sorted(mount_points)


SUITE = "trixie"
PACKAGE = "linux-image-cloud-amd64"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A bootable kernel: its version, its image, and the folder that is the guest's /lib/modules/VERSION."""

    version: str
    image: Path
    modules: Path


def install(say: Say) -> Kernel:
    """The kernel, from the cache if it exists; `MissingError` has the reason."""
    if architecture() != "amd64":
        raise MissingError("a machine of type x86_64", "the guest's processor is emulated for that one only")
    folder = cache_dir() / f"kernel-{SUITE}-{architecture()}"
    with cache_lock(folder.name):
        if not folder.exists():
            _fill(folder, say)
    modules = next((folder / "usr/lib/modules").iterdir())
    return Kernel(modules.name, folder / f"boot/vmlinuz-{modules.name}", modules)


def _fill(folder: Path, say: Say) -> None:
    """Unpack the newest kernel next to its final place and move it there when it is complete."""
    say(f"fetching a kernel from Debian {SUITE} (35 MB, once)")
    with tempfile.TemporaryDirectory(prefix=".new-", dir=cache_dir()) as scratch:
        content = Path(scratch, "content")
        content.mkdir()
        # The package of this name has nothing but a dependency on the newest kernel.
        newest = debs.unpack(PACKAGE, SUITE, content, Path(scratch, "apt")).depends[0]
        debs.unpack(newest, SUITE, content, Path(scratch, "apt"))
        version = newest.removeprefix("linux-image-")
        # busybox's depmod and modprobe want to find them below lib/.
        (content / "lib").symlink_to("usr/lib")
        _index(content, version)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(content, folder)


def _index(root: Path, version: str) -> None:
    """Write modules.dep and its like."""
    busybox = find_tool("busybox")
    if busybox is None:
        raise MissingError("busybox", "install the package busybox-static")
    command = [busybox, "depmod", "-b", str(root), version]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise MissingError("an index of the kernel's modules", last_line(process.stderr))


QEMU = "qemu-system-x86_64"
INIT = Path(__file__).with_name("init.sh")
ROOT = INIT.parents[2]
#: Where a command in the guest leaves a file that `run` brings out.
REPORT = "/run/report"
# The plainest processor that Debian's programs like: newer ones have them use instructions that take long to emulate.
# No cmpxchg16b: in QEMU 7.2 it leaves chance in the flags, and one kernel in four does not come up.
_PROCESSOR = "Nehalem,cx16=off,rdrand=on"
# On a busy machine timer interrupts come late: the kernel must neither take that for a broken timer or a lockup, nor
# measure the clock of the processor by it, or an hour would pass in a minute.
_KERNEL_LINE = (
    "console=ttyS0 quiet panic=-1 no_timer_check nowatchdog rcupdate.rcu_cpu_stall_suppress=1 mitigations=off "
    "clocksource=acpi_pm "
    "rootfstype=virtiofs root=root ro"
)
_LAST_LINES = 25


class GuestError(Exception):
    """The guest ended without telling an exit code, or did not end in time."""


@dataclass(frozen=True, slots=True)
class Guest:
    """Runs commands, each in its own guest. `deadline_s` includes the start of a guest."""

    deadline_s: float
    memory_mib: int = 3072
    say: Say = print

    def run(self, command: Sequence[str], environment: Mapping[str, str], report: Path | None = None) -> int:
        """Run a command in the project's folder as root; returns its exit code.

        What it leaves in `REPORT` is put into the file `report`. `MissingError` says what this machine lacks,
        `GuestError` the reason of a missing exit code.
        """
        if find_tool(QEMU) is None:
            raise MissingError(QEMU, "install the package qemu-system-x86")
        if os.geteuid() != 0:
            raise MissingError("root", "the guest is served this machine's root directory; run the command with sudo")
        kernel = install(self.say)
        with tempfile.TemporaryDirectory(prefix="nri-g-") as name:
            folder = Path(name)
            (folder / "job").mkdir()
            (folder / "job/run").write_text(_script(command, environment))
            self.say(f"guest: starting (two processors, two NUMA nodes, {self.memory_mib} MiB, emulated)")
            with self._shared(folder), self._started(folder, kernel) as machine:
                try:
                    machine.wait(self.deadline_s)
                except subprocess.TimeoutExpired:
                    raise GuestError(f"the command exceeded {self.deadline_s:.0f} s; {_last(folder)}") from None
            code = (folder / "code").read_text().strip()
            if not code:
                raise GuestError(f"the guest ended without an exit code; {_last(folder)}")
            if report is not None and (folder / "report").stat().st_size:
                report.write_bytes((folder / "report").read_bytes())
            return int(code)

    @contextlib.contextmanager
    def _shared(self, folder: Path) -> Iterator[None]:
        with _ended(start_sharing(folder, [ROOT, cache_dir(), folder])):
            yield

    @contextlib.contextmanager
    def _started(self, folder: Path, kernel: Kernel) -> Iterator[subprocess.Popen[bytes]]:
        half = f"{self.memory_mib // 2}M"
        command = [
            *("setpriv", "--pdeathsig", "KILL", find_tool(QEMU) or QEMU),
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", _PROCESSOR),
            *("-smp", "2,sockets=2", "-m", f"{self.memory_mib}M"),
            # virtiofsd writes into the guest's memory, so it is shared.
            *("-object", f"memory-backend-memfd,id=m0,size={half},share=on", "-numa", "node,nodeid=0,cpus=0,memdev=m0"),
            *("-object", f"memory-backend-memfd,id=m1,size={half},share=on", "-numa", "node,nodeid=1,cpus=1,memdev=m1"),
            *("-chardev", f"socket,id=fs,path={folder}/share.sock", "-device", "vhost-user-fs-pci,chardev=fs,tag=root"),
            *("-drive", "driver=null-co,size=64M,if=none,id=disk", "-device", "virtio-blk-pci,drive=disk"),
            *("-chardev", f"file,id=kernel,path={folder}/kernel.log", "-serial", "chardev:kernel"),
            *("-device", "virtio-serial-pci", "-chardev", "stdio,id=out,signal=off"),
            *("-chardev", f"file,id=code,path={folder}/code", "-chardev", f"file,id=report,path={folder}/report"),
            *("-device", "virtserialport,nr=1,chardev=out", "-device", "virtserialport,nr=2,chardev=code"),
            *("-device", "virtserialport,nr=3,chardev=report"),
            *("-kernel", str(kernel.image), "-append"),
            f"{_KERNEL_LINE} init={INIT} -- {folder}/job {kernel.modules} {ROOT}",
        ]
        # QEMU takes the end of its input for the end of its output's reader, and the guest would wait for another one.
        with (
            open(folder / "qemu.log", "wb") as log,
            _ended(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log)) as machine,
        ):
            yield machine


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Make sure that a process is gone at the end."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _script(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What the guest runs, as a shell script."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    return "\n".join([*exports, f"cd {shlex.quote(str(ROOT))}", f"exec {shlex.join(command)}", ""])


def _last(folder: Path) -> str:
    """The last lines of QEMU and the kernel."""
    lines = [
        line
        for name in ("qemu.log", "share.log", "kernel.log")
        if (folder / name).exists()
        for line in (folder / name).read_text(errors="replace").splitlines()[-_LAST_LINES:]
        if line.strip()
    ]
    return "\n".join(["last lines of QEMU and the kernel:", *lines]) if lines else "QEMU and the kernel printed nothing"
