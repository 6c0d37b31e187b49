"""One private engine of this project: `nri engine serve` in a run directory of its own, cleaned up at the end.

Rules: as `containerd`: what an `Engine` made is gone after `close()`, whatever happened in between. A dry one needs
neither root nor programs, and runs nothing. Next: `cri` drives it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from nri.engine.images import ImageStore
from tools.runtimes import leftovers
from tools.runtimes.config import cni_config
from tools.runtimes.cri import Cri
from tools.runtimes.images import BUSYBOX, image_archive
from tools.runtimes.machine import MissingError, Say, last_line, require_root
from tools.runtimes.mounts import mount

#: What a real engine works with; a dry one needs none of it.
PACKAGES = ("runc", "conmon", "skopeo", "umoci")
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
READY = " ready: "
#: The command line, up to its first verb.
PROGRAM = (sys.executable, "-m", "nri.cli.main")


class Engine:
    """A private engine; `start()` it, drive it through `.cri`, `close()` it.

    `run_dir` holds all its files: `engine.toml`, `cri.sock`, `nri.sock`, `admin.sock`, `plugins/`, `log`. They are
    `in_memory`, unless it is to work as on a node, where records reach the disk. Without `nri` it has no plugins.
    `program` is what `nri` is called by.
    """

    def __init__(
        self,
        say: Say = print,
        *,
        dry: bool = False,
        in_memory: bool = True,
        nri: bool = True,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.dry, self._nri = dry, nri
        self._program = program
        self._say = say
        if not dry:
            require_root()
        place = next((p for p in leftovers.PLACES if os.access(p, os.W_OK)), tempfile.gettempdir())
        self.run_dir = Path(tempfile.mkdtemp(prefix=leftovers.PREFIX, dir=place))
        if in_memory and not dry:
            # In memory: faster than a disk, and inside a container an overlay cannot lie on another one.
            mount("tmpfs", self.run_dir, "mode=0700")
        self._owner = leftovers.own(self.run_dir)
        for name in ("plugins", "conf.d", "cni", "logs"):
            (self.run_dir / name).mkdir()
        self.cri_socket = self.run_dir / "cri.sock"
        self.nri_socket = self.run_dir / "nri.sock"
        self.admin_socket = self.run_dir / "admin.sock"
        self.settings = self.run_dir / "engine.toml"
        self.log = self.run_dir / "log"
        self.settings.write_text(self._settings())
        self._process: subprocess.Popen[bytes] | None = None
        self._cri: Cri | None = None

    @property
    def cri(self) -> Cri:
        """A connected client; only while the engine runs."""
        if self._cri is None:
            raise RuntimeError("the engine is not running: call start() first")
        return self._cri

    @property
    def pid(self) -> int:
        """The daemon's process; only while it runs."""
        if self._process is None:
            raise RuntimeError("the engine is not running: call start() first")
        return self._process.pid

    def enable_pod_network(self) -> None:
        """Give pods that ask for a network of their own one, on a bridge of this run's name."""
        (self.run_dir / "cni/10-bridge.conflist").write_text(cni_config(self.run_dir))

    def start(self) -> None:
        """Start the engine and wait until it serves; bring the image at the first start."""
        if not (self.dry or self.log.exists()):
            ImageStore(self.run_dir / "root/images").load(f"oci-archive:{image_archive(self._say)}:{BUSYBOX}", BUSYBOX)
        self._serve()

    def restart(self) -> None:
        """Start it once more after its end, however that came."""
        if self._cri is not None:
            self._cri.close()
        self.log.write_text("")
        self._serve()

    def _serve(self) -> None:
        with open(self.log, "ab") as log:
            lives = len(self.log_lines(READY))
            # A session of its own: Ctrl-C reaches the owner only, which then ends this in order.
            self._process = subprocess.Popen(
                [*self._program, "engine", "serve", "--config", self.settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(self.log_lines(READY)) == lives:
            if self._process.poll() is not None:
                raise MissingError("a running engine", f"it ended: {last_line(self.log.read_text())}")
            if time.monotonic() > deadline:
                raise MissingError("a running engine", f"it did not serve within {START_TIMEOUT_S:.0f} s")
            time.sleep(0.02)
        self._cri = Cri(self.cri_socket, self.run_dir.name)

    def stop(self) -> None:
        """End the engine with SIGTERM; pods and containers stay."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the engine with SIGKILL, as a crash would; pods and containers stay."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End everything and remove every trace: pods, processes, mounts, cgroups, files."""
        with contextlib.suppress(Exception):
            self.cri.remove_all()
        with contextlib.suppress(Exception):
            self.stop()
        leftovers.remove(self.run_dir)
        self._release()

    def detach(self) -> None:
        """Leave everything running after this process; `python -m tools.runtimes clean` ends it."""
        (self.run_dir / leftovers.KEEP).touch()
        self._release()

    def log_lines(self, words: str) -> list[str]:
        """The lines of the engine's log with these words."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if words in line]

    def _settings(self) -> str:
        """The engine's configuration."""
        run_dir = self.run_dir
        return f"""\
dry = {str(self.dry).lower()}
socket = "{self.cri_socket}"
root = "{run_dir}/root"
state = "{run_dir}/state"

[cgroups]
parent = "/{run_dir.name}"

[network]
config_dir = "{run_dir}/cni"

[nri]
disable = {str(not self._nri).lower()}
socket_path = "{self.nri_socket}"
plugin_path = "{run_dir}/plugins"
plugin_config_path = "{run_dir}/conf.d"
admin_socket = "{self.admin_socket}"
policy_path = ""
"""

    def _release(self) -> None:
        if self._cri is not None:
            self._cri.close()
            self._cri = None
        if self._owner >= 0:
            os.close(self._owner)
            self._owner = -1

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
