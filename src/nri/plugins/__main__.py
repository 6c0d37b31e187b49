"""Run one registered plugin by its name: `python -m nri.plugins NAME -idx 10`, as images and systemd units do.

It imports only the modules that the plugin needs, because the program stays in a node's memory for months. `nri run`
also runs files and modules.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

USAGE = "usage: python -m nri.plugins NAME [FLAGS], or with NRI_PLUGIN_NAME=NAME in the environment"


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Run the plugin that the first argument or NRI_PLUGIN_NAME names. Returns the exit code.

    Without a name, --help prints the usage and the names of all plugins. Wrong usage prints one line and returns 2.
    """
    named = bool(arguments) and not arguments[0].startswith("-")
    name = arguments[0] if named else environment.get("NRI_PLUGIN_NAME", "")
    flags = arguments[1:] if named else arguments
    module = bundled(name)
    if module is not None:
        sys.argv[1:] = flags
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0
    return _run_foreign_plugin(name, flags)


def bundled(name: str) -> str | None:
    """The module of a plugin of this distribution, without importing it. Returns None for another name."""
    folder = name.replace("-", "_")
    if not folder.isidentifier():
        return None
    module = f"{__package__}.{folder}.plugin"
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return None if spec is None else module


def _run_foreign_plugin(name: str, flags: list[str]) -> int:
    """Run a plugin that another Python package has registered."""
    from importlib.metadata import entry_points  # takes 15 ms, which bundled plugins save

    registered = {entry.name: entry for entry in entry_points(group=__package__)}
    if not name and flags[:1] in (["--help"], ["-help"], ["-h"]):
        sys.stdout.write(f"{USAGE}\n\nPlugins: {', '.join(sorted(registered))}\n")
        sys.stdout.write("Descriptions: nri plugins list. Flags of a plugin: python -m nri.plugins NAME --help\n")
        return 0
    if name not in registered:
        problem = f"no plugin {name[:64]!r}" if name else "the name of a plugin is required"
        sys.stderr.write(f"error: {problem}. Plugins: {', '.join(sorted(registered))}. {USAGE}\n")
        return 2
    registered[name].load().main(flags)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
