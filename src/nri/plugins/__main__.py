"""Run one registered plugin by its name: `python -m nri.plugins NAME -idx 10`, what images and systemd units start.

One job: to find the program of the name, which is the first argument, or NRI_PLUGIN_NAME of the environment, as in
images that hold all plugins. Rules: it loads nothing that the plugin does not need, because a node runs it for months;
`nri run` takes files, modules and several plugins, and loads the command for that. Next: the plugin's own `plugin`.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

USAGE = "usage: python -m nri.plugins NAME [FLAGS], or with NRI_PLUGIN_NAME=NAME in the environment"


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Run the plugin of that name with the other arguments as its flags; returns the exit code.

    Without a name, --help is the usage, with the names that there are. Wrong usage is one line on stderr, and 2.
    """
    named = bool(arguments) and not arguments[0].startswith("-")
    name = arguments[0] if named else environment.get("NRI_PLUGIN_NAME", "")
    flags = arguments[1:] if named else arguments
    module = bundled(name)
    if module is not None:
        sys.argv[1:] = flags
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0
    return _foreign(name, flags)


def bundled(name: str) -> str | None:
    """The module of a plugin of this distribution, or None; looked up without loading it."""
    folder = name.replace("-", "_")
    if not folder.isidentifier():
        return None
    module = f"{__package__}.{folder}.plugin"
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return None if spec is None else module


def _foreign(name: str, flags: list[str]) -> int:
    """Run a plugin that another distribution has registered."""
    from importlib.metadata import entry_points  # 15 ms of a start, which plugins of this distribution do not need

    registered = {entry.name: entry for entry in entry_points(group=__package__)}
    if not name and flags[:1] in (["--help"], ["-help"], ["-h"]):
        sys.stdout.write(f"{USAGE}\n\nPlugins: {', '.join(sorted(registered))}\n")
        sys.stdout.write("To see what each one does: nri plugins list. Its flags: python -m nri.plugins NAME --help\n")
        return 0
    if name not in registered:
        problem = f"there is no plugin {name[:64]!r}" if name else "no plugin is named"
        sys.stderr.write(f"error: {problem}; there are {', '.join(sorted(registered))}. {USAGE}\n")
        return 2
    registered[name].load().main(flags)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
