"""A private engine of this project: `nri engine serve` in its own run directory, cleaned up at the end.

A dry engine needs neither root nor programs, and runs nothing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from nri.engine.images import ImageStore
from tools.runtimes.daemon import Runtime
from tools.runtimes.images import BUSYBOX, image_archive
from tools.runtimes.machine import Say, require_root

#: Packages of a real engine; a dry one needs none.
PACKAGES = ("runc", "conmon", "skopeo", "umoci")
#: The command line, up to its first verb.
PROGRAM = (sys.executable, "-m", "nri")


class Engine(Runtime):
    """A private engine; `start()` it, drive it through `.cri`, `close()` it.

    `run_dir` holds all its files: `engine.toml`, `cri.sock`, `nri.sock`, `admin.sock`, `plugins/`, `cdi/`, `log`. They
    are `in_memory`, unless it is to work as on a node, where records reach the disk. Without `nri` it has no plugins.
    `request_timeout_s` is how long a plugin has for a request, in seconds. `program` is what `nri` is called by.
    """

    def __init__(
        self,
        say: Say = print,
        *,
        dry: bool = False,
        in_memory: bool = True,
        nri: bool = True,
        request_timeout_s: float = 2.0,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.dry, self._nri, self._request_timeout_s = dry, nri, request_timeout_s
        self._program = program
        self._say = say
        if not dry:
            require_root()
        super().__init__("engine", in_memory=in_memory and not dry)
        self.run_dir.chmod(0o711)  # users of pods with a user namespace have to pass it
        self.admin_socket = self.run_dir / "admin.sock"
        self.settings = self.run_dir / "engine.toml"
        self.settings.write_text(self._settings())

    def start(self) -> None:
        """Start the engine and wait until it serves; bring the image at the first start."""
        if not (self.dry or self.log.exists()):
            ImageStore(self.run_dir / "root/images").load(f"oci-archive:{image_archive(self._say)}:{BUSYBOX}", BUSYBOX)
        self._serve()

    def restart(self) -> None:
        """Start it once more after its end, however that came."""
        self.log.write_text("")
        self._serve()

    def _serve(self) -> None:
        # As systemd would: nothing of what the engine starts may take it for its own.
        notify = str(self.run_dir / "notify")
        self._begin([*self._program, "engine", "serve", "--config", self.settings], NOTIFY_SOCKET=notify)

    def close(self) -> None:
        """End everything in order, and remove every trace."""
        with contextlib.suppress(Exception):
            self.cri.remove_all()
        with contextlib.suppress(Exception):
            self.stop()
        super().close()

    def _settings(self) -> str:
        """The engine's configuration. `containers` is the last table, so that tests can add settings to it."""
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
plugin_path = "{self.plugin_dir}"
plugin_config_path = "{self.plugin_config_dir}"
plugin_request_timeout = "{self._request_timeout_s:g}s"
admin_socket = "{self.admin_socket}"
policy_path = ""

[containers]
seccomp_root = "{run_dir}/seccomp"
cdi_dirs = ["{run_dir}/cdi"]
"""
