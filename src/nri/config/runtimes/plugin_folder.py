"""Check whether the runtimes of a node launch plugins from a folder: NRI must run, and use this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.config.runtimes import containerd
from nri.config.runtimes.containerd.installations import existing_installations
from nri.config.runtimes.file_tree import DiskTree
from nri.config.runtimes.registry import RUNTIMES
from nri.config.runtimes.release import find_release
from nri.config.runtimes.remark_texts import switch_on_step, texts_of

if TYPE_CHECKING:
    from nri.config.runtimes.file_tree import FileTree
    from nri.config.runtimes.reading import Reading
    from nri.config.runtimes.runtime import Runtime


def launch_obstacles(root: str, folder: str) -> list[str]:
    """List the reasons why plugins in this folder are not launched, one for each runtime that exists below `root`."""
    tree = DiskTree(root)
    readings = [
        (runtime, runtime.read(tree, find_release(root, runtime, programs).version, path))
        for runtime in RUNTIMES
        for path, programs in (_containerds(tree) if runtime is containerd.RUNTIME else [("", ())])
    ]
    return [text for runtime, reading in readings if (text := _launch_obstacle(runtime, reading, folder))]


def _containerds(tree: FileTree) -> list[tuple[str, tuple[str, ...]]]:
    """List the main files of all installations of containerd, each with its possible programs."""
    installations = [(row.path, row.programs) for row in existing_installations(tree) if row.path != containerd.PATH]
    return installations if installations and not tree.exists(containerd.PATH) else [("", ()), *installations]


def requires_config(root: str) -> bool:
    """Whether a runtime below `root` launches only plugins that have a configuration file."""
    tree = DiskTree(root)
    return any(row.requires_plugin_config and row.read(tree, "", "").nri is not None for row in RUNTIMES)


def _launch_obstacle(runtime: Runtime, reading: Reading, folder: str) -> str:
    """Return why a runtime does not launch plugins from a folder. Returns "" if it does, or does not exist."""
    nri, remark = reading.nri, reading.failure or reading.obstacle
    if nri is None:
        return ""
    if remark is not None:
        return f"{runtime.title} would not launch it: {remark.where}: {texts_of(reading.runtime, remark).what}"
    if nri.enabled is False and not runtime.cri_sockets and runtime.keys["enabled"] not in nri.origin:
        return ""  # Docker Engine is often installed next to the runtime that matters
    if nri.enabled is False:
        return f"{runtime.title} would not launch it: NRI is off; {switch_on_step(runtime, nri)}"
    if nri.plugin_path != folder:
        where = nri.origin.get(runtime.keys["plugin_path"], runtime.path)
        return f"{runtime.title} launches plugins from {nri.plugin_path}, not from {folder}: {where}"
    return ""
