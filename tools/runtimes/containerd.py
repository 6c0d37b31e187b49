"""One private containerd: started in its own run directory, killed, started again, cleaned up.

Rules: what a `Containerd` made is gone after `close()`, whatever happened in between; it
never touches another containerd. Use it as a context manager. Next: `cri` drives it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.runtimes import leftovers
from tools.runtimes.config import DaemonSettings, cni_config, containerd_config
from tools.runtimes.cri import Cri
from tools.runtimes.images import image_archive
from tools.runtimes.machine import PATIENCE, MissingError, Say, find_tool, last_line, require_root
from tools.runtimes.mounts import mount, unmount
from tools.runtimes.releases import Installed

START_TIMEOUT_S = 30.0 * PATIENCE
STOP_TIMEOUT_S = 10.0 * PATIENCE


class Containerd:
    """A private containerd with NRI on; `start()` it, drive it through `.cri`, `close()` it.

    `run_dir` holds all its files: `cri.sock`, `nri.sock`, `plugins/`, `conf.d/`, `cdi/`, `log`.
    """

    def __init__(self, installed: Installed, settings: DaemonSettings | None = None, say: Say = print) -> None:
        require_root()
        runc = find_tool("runc")
        if runc is None:
            raise MissingError("runc", "install the package runc")
        self.installed = installed
        self._say = say
        place = next((p for p in leftovers.PLACES if os.access(p, os.W_OK)), tempfile.gettempdir())
        self.run_dir = Path(tempfile.mkdtemp(prefix=leftovers.PREFIX, dir=place))
        # In memory: much faster than a disk, and inside a container an overlay cannot lie on another one.
        mount("tmpfs", self.run_dir, "mode=0700")
        self._owner = leftovers.own(self.run_dir)
        for name in ("plugins", "conf.d", "cni", "cdi", "logs"):
            (self.run_dir / name).mkdir()
        self.cri_socket = self.run_dir / "cri.sock"
        self.nri_socket = self.run_dir / "nri.sock"
        self.plugin_dir = self.run_dir / "plugins"
        self.plugin_config_dir = self.run_dir / "conf.d"
        self.log = self.run_dir / "log"
        self.snapshotter = _snapshotter(self.run_dir)
        self._runc = runc
        self._process: subprocess.Popen[bytes] | None = None
        self._cri: Cri | None = None
        self.configure(settings or DaemonSettings())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def cri(self) -> Cri:
        """A connected client; only while the daemon runs."""
        if self._cri is None:
            raise RuntimeError("containerd is not running: call start() first")
        return self._cri

    @property
    def pid(self) -> int:
        """The daemon's process; only while it runs."""
        if self._process is None:
            raise RuntimeError("containerd is not running: call start() first")
        return self._process.pid

    def configure(self, settings: DaemonSettings) -> None:
        """Write the configuration; a running daemon takes it at its next start."""
        version = self.installed.release.config_version
        text = containerd_config(version, self.run_dir, self._runc, self.snapshotter, settings)
        (self.run_dir / "config.toml").write_text(text)
        self._log_level, self._no_nri = settings.log_level, bool(settings.nri.get("disable"))

    def enable_pod_network(self) -> None:
        """Give pods that ask for a network of their own one, on a bridge of this run's name."""
        (self.run_dir / "cni/10-bridge.conflist").write_text(cni_config(self.run_dir))

    def start(self) -> None:
        """Start the daemon, wait until it serves, and import the images at the first start."""
        search_path = f"{self.installed.bin}:/usr/sbin:/usr/bin:/sbin:/bin"
        with open(self.log, "ab") as log:
            # A session of its own: Ctrl-C reaches the owner only, which then ends this in order.
            self._process = subprocess.Popen(
                [self.installed.bin / "containerd", "-c", self.run_dir / "config.toml", "-l", self._log_level],
                env={**os.environ, "PATH": search_path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._cri = Cri(self.cri_socket, self.run_dir.name)
        self._wait_until_serving()
        if not (self.run_dir / "imported").exists():
            self._import_images()

    def stop(self) -> None:
        """End the daemon with SIGTERM; pods and containers stay, as with any containerd."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the daemon with SIGKILL, as a crash would; pods and containers stay."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End everything and remove every trace: pods, processes, mounts, cgroups, bridge, files."""
        with contextlib.suppress(Exception):
            self._end(signal.SIGKILL)
        leftovers.remove(self.run_dir)
        self._release()

    def detach(self) -> None:
        """Leave everything running after this process; `python -m tools.runtimes clean` ends it."""
        (self.run_dir / leftovers.KEEP).touch()
        self._release()

    def log_lines(self, pattern: str) -> list[str]:
        """The lines of the daemon's log that match."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if re.search(pattern, line)]

    def ctr(self, *arguments: str) -> str:
        """Run containerd's own debugging command on this daemon."""
        command = [str(self.installed.bin / "ctr"), "-a", str(self.cri_socket), "-n", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"ctr {' '.join(arguments)}: {last_line(done.stderr)}")
        return done.stdout

    def _release(self) -> None:
        if self._cri is not None:
            self._cri.close()
            self._cri = None
        if self._owner >= 0:
            os.close(self._owner)
            self._owner = -1

    def _import_images(self) -> None:
        # The transfer service of 2.x unpacks for its default snapshotter only.
        local = ["--local"] if self.installed.release.config_version > 2 else []
        self.ctr("images", "import", *local, "--snapshotter", self.snapshotter, str(image_archive(self._say)))
        (self.run_dir / "imported").touch()

    def _wait_until_serving(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise MissingError("a running containerd", f"it ended: {last_line(self.log.read_text())}")
            if self.cri_socket.exists() and (self._no_nri or self.nri_socket.exists()) and self.cri.answers():
                return
            time.sleep(0.01)
        raise MissingError("a running containerd", f"it did not serve within {START_TIMEOUT_S:.0f} s")

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if self._cri is not None:
            self._cri.close()
            self._cri = None
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _snapshotter(run_dir: Path) -> str:
    """`overlayfs` where this folder can hold one, else `native` (slower: copies the image)."""
    probe = run_dir / "probe"
    for name in ("lower", "upper", "work", "merged"):
        (probe / name).mkdir(parents=True)
    options = f"lowerdir={probe}/lower,upperdir={probe}/upper,workdir={probe}/work"
    if not mount("overlay", probe / "merged", options):
        return "native"
    unmount(probe / "merged")
    return "overlayfs"
