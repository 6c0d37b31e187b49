"""Load plugin classes by registered name, file or module, as `nri run` and `nri try` name them.

A mistake of the plugin's author becomes one line with the author's file and line number.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from typing import TYPE_CHECKING

from nri.errors import ConfigError
from nri.files import instead_of_file, is_file
from nri.plugins import registry
from nri.stub.plugin import Plugin
from nri.text import nearest

if TYPE_CHECKING:
    from types import ModuleType


def load(target: str) -> type[Plugin]:
    """Load the plugin class that `NAME`, `FILE`, `FILE:CLASS` or `MODULE:CLASS` names.

    Raises ConfigError if the class does not exist or cannot be imported.
    """
    place, _, class_name = target.partition(":")
    index, equals, plugin = target.partition("=")
    if equals and index.isdecimal() and not is_file(place):
        raise ConfigError(target, "", f"the index follows the plugin. try: nri run {plugin} --idx {index}")
    if is_path(place):
        return pick(_load_file(place), class_name, place)
    entry = None if class_name else registry.find(place)
    return registry.load(entry) if entry else pick(_import(place, bare=not class_name), class_name, place)


def is_path(place: str) -> bool:
    """Whether a target names a file, which may be missing."""
    is_existing = os.path.exists(place) and not os.path.isdir(place)  # a folder may be a package
    return is_existing or place.endswith(".py") or os.path.sep in place or place.startswith(".")


def pick(module: ModuleType, class_name: str, place: str) -> type[Plugin]:
    """Choose the class of that name, or the module's only plugin class that has no subclass in the module."""
    if class_name:
        chosen = getattr(module, class_name, None)
        if not isinstance(chosen, type) or not issubclass(chosen, Plugin):
            raise ConfigError(place, "", f"{class_name} is not a plugin class: it must inherit from nri.Plugin")
        return chosen
    kinds = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Plugin)]
    kinds = [kind for kind in dict.fromkeys(kinds) if kind.__module__ == module.__name__]
    final_kinds = [kind for kind in kinds if not any(other is not kind and issubclass(other, kind) for other in kinds)]
    if len(final_kinds) != 1:
        names = ", ".join(kind.__name__ for kind in final_kinds)
        reason = (
            f"several plugin classes: {names}. Choose a class: {place}:{final_kinds[0].__name__}"
            if final_kinds
            else "no class that inherits from nri.Plugin"
        )
        raise ConfigError(place, "", reason)
    return final_kinds[0]


def _load_file(path: str) -> ModuleType:
    """Import a file as a module, with its folder on the search path, as `python FILE` does."""
    if not is_file(path):
        raise ConfigError(path, "", instead_of_file(path))
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
        raise author_error(error, path) from error
    return module


def _import(name: str, *, bare: bool) -> ModuleType:
    """Import a module from the current folder or the installed packages."""
    if not name:
        raise _missing_module('""', bare=bare)
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise _missing_module(name, bare=bare) from None
        raise author_error(error, name) from error
    except Exception as error:
        raise author_error(error, name) from error


def _missing_module(name: str, *, bare: bool) -> ConfigError:
    """Return the error for a missing module. With `bare` the target could also have been a registered plugin."""
    if not bare:
        return ConfigError(name, "", "neither a file nor a module of this name exists")
    similar = nearest(name, registry.names())
    suggestion = f"; did you mean {similar}?" if similar else "."
    reason = f"no file, module or plugin of this name exists{suggestion} All registered plugins: nri plugins list"
    return ConfigError(name, "", reason)


def author_error(error: Exception, place: str) -> ConfigError:
    """Return an exception of the author's code as one line, with the line of the author's file that raised it."""
    if isinstance(error, SyntaxError) and error.filename:
        python = "" if error.filename.endswith(".py") else "not Python: "
        text = f"{python}{error.msg}: {(error.text or '').strip()}"
        return ConfigError(f"{error.filename}:{error.lineno}", "", text)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    name = os.path.basename(place.partition(":")[0])
    author_frames = [frame for frame in frames if os.path.basename(frame.filename) == name] or frames
    where = f"{author_frames[-1].filename}:{author_frames[-1].lineno}" if author_frames else place
    return ConfigError(where, "", f"{type(error).__name__}: {error}")
