"""Hatchling's hook for the compiled wheel: the modules of the hot path as C, by mypyc, from the very same source.

    NRI_COMPILE=1 python -m build --wheel

Without the variable the wheel is pure Python, and this does nothing. pyproject.toml says which modules, under
`tool.hatch.build.targets.wheel.hooks.custom`: folders, and exceptions with their reasons. The work happens in a copy,
so that no library stays behind in `src`, where an editable install would pick it up. The Python files are in the wheel
as well, for who reads or debugs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import setup

options, *groups = (text.split(",") for text in sys.argv.pop().split(";"))
# A library each, so that a plugin loads neither the runtime's nor what few plugins need.
named = list(zip(groups, ("nri_plugin", "nri_runtime", "nri_shared"), strict=True))
modules = mypycify([*options, *sum(groups, [])], opt_level="3", debug_level="0", separate=named)
setup(name="nri-compiled", ext_modules=modules, packages=[])
"""
# A type error that matters is lint's; here mypy only has to know the types.
_MYPY = ["--config-file=", "--ignore-missing-imports", "--disable-error-code=unused-ignore"]
_HINT = (
    "nri: error: the modules could not be compiled (see above). That takes a C compiler and Python's headers (on"
    " Debian: apt-get install gcc python3-dev). Without NRI_COMPILE=1 the same is installed as pure Python."
)


def fitting(source: Path, pattern: str) -> list[str]:
    """The files below `source` that a pattern such as `nri/mux/*.py` means. ValueError if there are none."""
    found = [path.relative_to(source).as_posix() for path in sorted(source.glob(pattern))]
    if not found:
        raise ValueError(f"no file fits {pattern!r}")
    return found


def chosen(source: Path, modules: Sequence[str], exceptions: Mapping[str, str]) -> list[str]:
    """The files below `source` that are compiled: what the patterns mean, less `__init__.py` and the exceptions.

    Args:
        source: the folder that holds the package.
        modules: patterns.
        exceptions: pattern -> why it stays Python.

    Raises:
        ValueError: a pattern means no file, or an exception has no reason.
    """
    found = dict.fromkeys(path for pattern in modules for path in fitting(source, pattern))
    for pattern, reason in exceptions.items():
        if not reason.strip():
            raise ValueError(f"the exception {pattern!r} has no reason")
        for path in fitting(source, pattern):
            found.pop(path, None)
    return [path for path in found if not path.endswith("/__init__.py")]


class CompileHook(BuildHookInterface[Any]):
    """Compiles if NRI_COMPILE=1."""

    PLUGIN_NAME = "custom"

    def _wanted(self, version: str) -> bool:
        return os.environ.get("NRI_COMPILE") == "1" and version == "standard"

    def dependencies(self) -> list[str]:
        """What building needs on top of hatchling."""
        return list(self.config["requires"]) if self._wanted("standard") else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the libraries put into the wheel."""
        if not self._wanted(version):
            return
        self._folder = tempfile.mkdtemp(prefix="nri-compile-")
        try:
            self._compile(Path(self._folder), build_data)
        except BaseException:
            shutil.rmtree(self._folder)
            raise

    def _compile(self, folder: Path, build_data: dict[str, Any]) -> None:
        shutil.copytree(Path(self.root, "src", "nri"), folder / "nri", ignore=shutil.ignore_patterns("__pycache__"))
        modules = self._modules(folder)
        (folder / "setup.py").write_text(_SETUP)
        self.app.display_info(f"compiling {sum(map(len, modules))} modules, which takes a minute or two")
        argument = ";".join(",".join(row) for row in (_MYPY, *modules))
        done = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace", argument],
            check=False, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode:
            self.app.abort(f"{done.stdout[-4000:]}\n{_HINT}")
        build_data["infer_tag"], build_data["pure_python"] = True, False
        for library in (*folder.glob("*.so"), *folder.glob("nri/**/*.so")):
            build_data["force_include"][str(library)] = str(library.relative_to(folder))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The copy has served."""
        if self._wanted(version):
            shutil.rmtree(self._folder)

    def _modules(self, folder: Path) -> tuple[list[str], list[str], list[str]]:
        """The files that are compiled: those of every plugin, of a runtime, and of runtimes and some plugins."""
        found: list[str] = []
        try:
            found = chosen(folder, self.config["modules"], self.config.get("exceptions", {}))
        except ValueError as error:
            self.app.abort(f"pyproject.toml: tool.hatch.build.targets.wheel.hooks.custom: {error}")
        runtime = [path for path in found if path.startswith("nri/adaptation/")]
        shared = [path for path in found if path in self.config["shared"]]
        return [path for path in found if path not in (*runtime, *shared)], runtime, shared
