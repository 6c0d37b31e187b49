"""A dry engine: it decides and records every step, but runs no containers. For demos, and for tests without root.

Decisions, records, events and specs are real. No process, mount, cgroup, namespace or network is created. Every image
exists, has no files, and has a placeholder as its command. Pods have no network.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from nri.engine.config import EngineConfig, OciRuntime
from nri.engine.images import Credentials, Image, ImageStore
from nri.engine.images.mapping import IdMapping
from nri.engine.images.transport import OnProgress
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.places import Places
from nri.engine.lifecycle.pod_namespaces import PodNamespaces
from nri.engine.lifecycle.settings_files import SettingsFiles
from nri.engine.process import Conmon, ExecResult, Exit, Exits, Runtime, StreamOwner
from nri.engine.process.dry import DryConmon, DryExits, DryRuntime, dry_exec_sync
from nri.engine.spec import Machine
from nri.engine.support.errors import NotFound
from nri.files import private_folder, remove_tree

#: The command of every image, for containers whose request has no command. Images are not read.
_COMMAND = "(the command of the image)"


class DryMachinery(Machinery):
    """Tools that change nothing on the machine. The machine counts as fully featured."""

    dry = True

    def __init__(self, config: EngineConfig, places: Places) -> None:
        super().__init__(config, places)
        self.machine = Machine(architecture=self.machine.architecture, hostname=self.machine.hostname)
        self.images = _Images(places.images)
        # These have the methods of the real parts, but not their types.
        self.namespaces = cast(PodNamespaces, _Namespaces())

    def configure(self, files: SettingsFiles) -> None:
        """Use other settings for the next calls."""
        super().configure(files)
        self.conmon = cast(Conmon, DryConmon())

    def missing_programs(self) -> list[str]:
        """Return [], because no program is run."""
        return []

    def exits(self, on_exit: Callable[[Exit], None]) -> Exits:
        """Create the object that reports the ends of containers, which only the engine's own calls cause."""
        return cast(Exits, DryExits(on_exit))

    def exec_sync(
        self,
        runtime: Runtime,
        container_id: str,
        process: dict[str, Any],
        timeout_s: float | None,
        client_gone: threading.Event | None = None,
        owner: StreamOwner | None = None,
    ) -> ExecResult:
        """Pretend to run a program in a container."""
        return dry_exec_sync(cast(DryRuntime, runtime), container_id, process, timeout_s=timeout_s)

    def _features(self, runtime: Runtime) -> Mapping[str, Any]:
        return {"mountOptions": ["rro"]}

    def _make_runtime(self, handler: str, settings: OciRuntime) -> Runtime:
        return cast(Runtime, DryRuntime(Path(settings.path).name))


class _Images(ImageStore):
    """A store in which every image exists, without files."""

    def get(self, name: str) -> Image:
        """Return the image with a name or id."""
        try:
            return super().get(name)
        except NotFound:
            digest = hashlib.sha256(name.encode()).hexdigest()
            return Image(f"sha256:{digest}", (name,), config={"Cmd": [_COMMAND]}, pulled_at_ns=time.time_ns())

    def pull(self, reference: str, credentials: Credentials | None = None, progress: OnProgress | None = None) -> Image:
        """Return the image with a name. Nothing is pulled."""
        return self.get(reference)

    def load(self, source: str, reference: str, progress: OnProgress | None = None) -> Image:
        """Return the image with a name. No archive is read."""
        return self.get(reference)

    def accounts(self, image: Image) -> tuple[str, str]:
        """Return empty files, because the image has no files."""
        return "", ""

    def mount(self, image: Image, container_id: str, mapping: IdMapping | None = None) -> Path:
        """Create an empty folder for the root file system."""
        return private_folder(self.root / "dry" / container_id)

    def unmount(self, container_id: str) -> None:
        """Remove the folder of :meth:`mount`."""
        remove_tree(self.root / "dry" / container_id)


class _Namespaces:
    """The methods of `PodNamespaces`. They return paths of namespaces that do not exist."""

    def make(
        self, pod_id: str, folder: Path, kinds: set[str], hostname: str, sysctls: object, id_mappings: object = None
    ) -> dict[str, str]:
        return {kind: str(folder / kind) for kind in (*kinds, *(("user",) if id_mappings else ()))}

    def pin(self, folder: Path, kind: str, pid: int) -> str:
        return str(folder / kind)

    def remove(self, pod_id: str, folder: Path) -> None:
        """Remove nothing, because nothing exists."""
