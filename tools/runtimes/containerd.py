"""A private containerd: started in its own run directory, killed, started again, cleaned up.

`close()` removes everything that a `Containerd` made, whatever happened in between.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.runtimes.config import DaemonSettings, containerd_config
from tools.runtimes.daemon import START_TIMEOUT_S, Runtime
from tools.runtimes.images import image_archive
from tools.runtimes.machine import MissingError, Say, find_tool, last_line, require_root
from tools.runtimes.mounts import mount, unmount
from tools.runtimes.releases import Installed


class Containerd(Runtime):
    """A private containerd with NRI on; `start()` it, drive it through `.cri`, `close()` it.

    `run_dir` holds all its files: `cri.sock`, `nri.sock`, `plugins/`, `conf.d/`, `cdi/`, `log`.
    """

    def __init__(self, installed: Installed, settings: DaemonSettings | None = None, say: Say = print) -> None:
        require_root()
        runc = find_tool("runc")
        if runc is None:
            raise MissingError("runc", "install the package runc")
        super().__init__("containerd")
        (self.run_dir / "cdi").mkdir()
        self.installed = installed
        self._say = say
        self.snapshotter = _snapshotter(self.run_dir)
        self._runc = runc
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

    def configure(self, settings: DaemonSettings) -> None:
        """Write the configuration; a running daemon takes it at its next start."""
        version = self.installed.release.config_version
        text = containerd_config(version, self.run_dir, self._runc, self.snapshotter, settings)
        (self.run_dir / "config.toml").write_text(text)
        self._log_level, self._no_nri = settings.log_level, bool(settings.nri.get("disable"))

    def start(self) -> None:
        """Start the daemon, wait until it serves, and import the images at the first start."""
        search_path = f"{self.installed.bin}:/usr/sbin:/usr/bin:/sbin:/bin"
        config = self.run_dir / "config.toml"
        self._begin([self.installed.bin / "containerd", "-c", config, "-l", self._log_level], PATH=search_path)
        if not (self.run_dir / "imported").exists():
            self._import_images()

    def has_connected(self, plugin: str) -> bool:
        """Whether it has logged that a plugin called ``NN-name``, or ending in this name, is connected."""
        return bool(self.log_lines(f"plugin .*{plugin}.* connected"))

    def wait_connected(self, plugin: str) -> None:
        """Wait for that log line: the plugin itself reports earlier, and would miss an event in between."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.has_connected(plugin):
            if time.monotonic() > deadline:
                raise TimeoutError(f"containerd did not log within {START_TIMEOUT_S:.0f} s that {plugin} is connected")
            time.sleep(0.02)

    def ctr(self, *arguments: str) -> str:
        """Run containerd's own debugging command on this daemon."""
        command = [str(self.installed.bin / "ctr"), "-a", str(self.cri_socket), "-n", "k8s.io", *arguments]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode != 0:
            raise RuntimeError(f"ctr {' '.join(arguments)}: {last_line(process.stderr)}")
        return process.stdout

    def _import_images(self) -> None:
        # The transfer service of 2.x unpacks for its default snapshotter only.
        local = ["--local"] if self.installed.release.config_version > 2 else []
        self.ctr("images", "import", *local, "--snapshotter", self.snapshotter, str(image_archive(self._say)))
        (self.run_dir / "imported").touch()

    def _serves(self) -> bool:
        return self.cri_socket.exists() and (self._no_nri or self.nri_socket.exists()) and self.cri.answers()


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
