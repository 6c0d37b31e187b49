"""The guest: QEMU with Debian's kernel on this machine's root directory; a command in it, and its exit code.

Rules: two processors, each a NUMA node of its own with half of the memory; cgroup v2 alone; an empty disk, /dev/vda.
The command's output comes as it is printed. Whatever happens, nothing of it is left when `run` returns.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.guest.kernel import Kernel, install
from tools.guest.share import start_sharing
from tools.runtimes.machine import MissingError, Say, cache_dir, find_tool

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
    """Runs commands, each in a guest of its own. `deadline_s` is for the whole of one, its start included."""

    deadline_s: float
    memory_mib: int = 3072
    say: Say = print

    def run(self, command: Sequence[str], environment: Mapping[str, str], report: Path | None = None) -> int:
        """Run a command in the project's folder as root; returns its exit code.

        What it leaves in `REPORT` is put into the file `report`. `MissingError` says what this machine lacks,
        `GuestError` why there is no exit code.
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
                    raise GuestError(f"it was not done within {self.deadline_s:.0f} s; {_last(folder)}") from None
            code = (folder / "code").read_text().strip()
            if not code:
                raise GuestError(f"it ended without an exit code; {_last(folder)}")
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
    """What QEMU and the kernel said last."""
    lines = [
        line
        for name in ("qemu.log", "share.log", "kernel.log")
        if (folder / name).exists()
        for line in (folder / name).read_text(errors="replace").splitlines()[-_LAST_LINES:]
        if line.strip()
    ]
    return "\n".join(["QEMU and the kernel said last:", *lines]) if lines else "QEMU and the kernel said nothing"
