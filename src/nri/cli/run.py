"""`nri run`: find the plugin class in a file or module, and hand it to the stub with the flags that it knows.

Next modules: `nri.stub.program.options` and `nri.stub.program.start` run it, `nri.cli.reload` runs it again when its
file changes.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import USAGE, Failure
from nri.cli.verb import Settings, Verb

if TYPE_CHECKING:
    from types import ModuleType

    from nri.stub.plugin import Plugin

#: The index of a plugin for which nobody chose one: after those that come first, before those that have the last word.
DEFAULT_INDEX = "50"

EXAMPLES = [
    "nri run pod_name.py --idx 10",
    "nri run pod_name.py --reload            # again, whenever the file changes",
    "nri run my_plugins.pin:Pin --config pin.yaml",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("target", metavar="FILE|MODULE:CLASS")
@click.option(
    "--idx", "-idx", "-i", metavar="NN", help=f"Place in the order of plugins, 00 to 99; default {DEFAULT_INDEX}."
)
@click.option("--name", "-name", metavar="NAME", help="The plugin's name; default: the class's.")
@click.option("--config", "-config", metavar="FILE", help="Its configuration; watched for changes.")
@click.option("--events", "-events", metavar="LIST", help="Take only these events: all, pod, container, or names.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Default: info.")
@click.option("--log-file", metavar="FILE", help="Log there instead of standard error.")
@click.option("--health-addr", metavar="HOST:PORT", help="Serve /healthz and /readyz there.")
@click.option("--no-reconnect", is_flag=True, help="End when the runtime is not there or goes away.")
@click.option("--reload", is_flag=True, help="Start again whenever a file of the plugin changes.")
@click.pass_obj
def command(settings: Settings, /, target: str, reload: bool, **flags: Any) -> int:
    """Run a plugin against the runtime on this machine, until it is stopped.

    FILE holds one plugin class, or is followed by :CLASS. What the plugin's own --help says holds here too.
    """
    if reload:
        from nri.cli.reload import supervise

        return supervise(target)
    from nri.stub.program.options import parse
    from nri.stub.program.start import run

    plugin = load(target)
    arguments = stub_arguments(settings, flags)
    known = os.environ.get("NRI_PLUGIN_IDX") or os.path.basename(target)[:2].isdigit()
    if not flags.get("idx") and not known:
        arguments += ["--idx", DEFAULT_INDEX]
    return run(plugin, parse(arguments, os.environ, target.partition(":")[0], plugin.name))


def stub_arguments(settings: Settings, flags: dict[str, Any]) -> list[str]:
    """Our options as the stub's command line, which checks them."""
    arguments = []
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(flag)
        elif value:
            arguments += [flag, value]
    if settings.socket_path:
        arguments += ["--socket-path", settings.socket_path]
    if settings.verbose:
        arguments.append("--verbose")
    return [*arguments, "--log-format", settings.log_format]


def load(target: str) -> type[Plugin]:
    """The plugin class that `FILE`, `FILE:CLASS` or `MODULE:CLASS` names. Failure says what is wrong, and where."""
    place, _, class_name = target.partition(":")
    module = (
        _load_file(place) if place.endswith(".py") or os.path.sep in place or os.path.isfile(place) else _import(place)
    )
    return pick(module, class_name, place)


def pick(module: ModuleType, class_name: str, place: str) -> type[Plugin]:
    """The class of that name, or the only plugin class that the module defines and builds nothing else upon."""
    from nri.stub.plugin import Plugin

    if class_name:
        chosen = getattr(module, class_name, None)
        if not isinstance(chosen, type) or not issubclass(chosen, Plugin):
            raise Failure(
                f"{place}: {class_name} is not a plugin class there. Plugins are classes that inherit from nri.Plugin",
                USAGE,
            )
        return chosen
    own = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Plugin)]
    own = [kind for kind in dict.fromkeys(own) if kind.__module__ == module.__name__]
    last = [kind for kind in own if not any(other is not kind and issubclass(other, kind) for other in own)]
    if len(last) != 1:
        names = ", ".join(kind.__name__ for kind in last)
        reason = (
            f"several plugin classes: {names}. Say which: {place}:{last[0].__name__}"
            if last
            else "no class that inherits from nri.Plugin"
        )
        raise Failure(f"{place}: {reason}", USAGE)
    return last[0]


def _load_file(path: str) -> ModuleType:
    """Run a file as a module of its own name, with its folder importable, as `python FILE` has it."""
    if not os.path.isfile(path):
        raise Failure(f"{path}: no such file", USAGE)
    name = os.path.splitext(os.path.basename(path))[0].replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path, loader=importlib.machinery.SourceFileLoader(name, path))
    assert spec, "a loader was given"
    assert spec.loader, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations and pickles find the module by its name
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Failure(_explain(error, path), USAGE) from error
    return module


def _import(name: str) -> ModuleType:
    """Import a module from the current folder or the installed packages."""
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise Failure(f"{name}: no such file, and no module of that name", USAGE) from None
        raise Failure(_explain(error, name), USAGE) from error
    except Exception as error:
        raise Failure(_explain(error, name), USAGE) from error


def _explain(error: Exception, place: str) -> str:
    """The author's mistake in one line, with the line of the author's file in which it came up."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {error.msg}: {(error.text or '').strip()}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    own = [frame for frame in frames if os.path.basename(frame.filename) == os.path.basename(place)] or frames
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else place
    return f"{where}: {type(error).__name__}: {error}"
