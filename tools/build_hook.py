"""Hatchling's hook for the compiled wheel: mypyc compiles the modules of tools/compiled_modules.toml.

    NRI_COMPILE=1 python -m build --wheel

Without the variable the wheel is pure Python. The compiled wheel contains the Python files as well, for reading and
debugging.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = "tools/compiled_modules.toml"
_SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import setup

options, *groups = (text.split(",") for text in sys.argv.pop().split(";"))
# A library for each group: a plugin loads neither the runtime's modules nor those that few plugins need.
named = list(zip(groups, ("nri_plugin", "nri_runtime", "nri_shared"), strict=True))
modules = mypycify([*options, *sum(groups, [])], opt_level="3", debug_level="0", separate=named)
setup(name="nri-compiled", ext_modules=modules, packages=[])
"""
# Lint reports type errors; mypyc only needs the types.
_MYPY = ["--config-file=", "--ignore-missing-imports", "--disable-error-code=unused-ignore"]
_HINT = (
    "nri: error: compiling the modules failed (see above). It needs a C compiler and Python's headers (on Debian:"
    " apt-get install gcc python3-dev). Without NRI_COMPILE=1 the package is installed as pure Python."
)


def module_lists(root: Path) -> dict[str, Any]:
    """The content of tools/compiled_modules.toml."""
    return tomllib.loads((root / MODULES).read_text(encoding="utf-8"))


def matching_files(source: Path, pattern: str) -> list[str]:
    """The files below `source` that match a pattern such as `nri/mux/*.py`. ValueError if there are none."""
    paths = [path.relative_to(source).as_posix() for path in sorted(source.glob(pattern))]
    if not paths:
        raise ValueError(f"no file matches {pattern!r}")
    return paths


def compiled_files(source: Path, modules: Sequence[str], exceptions: Mapping[str, str]) -> list[str]:
    """The files below `source` to compile: those that match, without `__init__.py` and the exceptions.

    Args:
        source: the folder that contains the package.
        modules: patterns.
        exceptions: pattern -> the reason why it is not compiled.

    Raises:
        ValueError: a pattern matches no file, or an exception has no reason.
    """
    paths = dict.fromkeys(path for pattern in modules for path in matching_files(source, pattern))
    for pattern, reason in exceptions.items():
        if not reason.strip():
            raise ValueError(f"the exception {pattern!r} has no reason")
        for path in matching_files(source, pattern):
            paths.pop(path, None)
    return [path for path in paths if not path.endswith("/__init__.py")]


class CompileHook(BuildHookInterface[Any]):
    """Compile the modules if NRI_COMPILE=1."""

    PLUGIN_NAME = "custom"

    def _is_enabled(self, version: str) -> bool:
        return os.environ.get("NRI_COMPILE") == "1" and version == "standard"

    def dependencies(self) -> list[str]:
        """Build requirements in addition to hatchling."""
        return list(self.config["requires"]) if self._is_enabled("standard") else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the libraries to the wheel."""
        if not self._is_enabled(version):
            return
        self._folder = tempfile.mkdtemp(prefix="nri-compile-")
        try:
            self._compile(Path(self._folder), build_data)
        except BaseException:
            shutil.rmtree(self._folder)
            raise

    def _compile(self, folder: Path, build_data: dict[str, Any]) -> None:
        # A copy, so that no library stays in `src`, where an editable install would load it.
        shutil.copytree(Path(self.root, "src", "nri"), folder / "nri", ignore=shutil.ignore_patterns("__pycache__"))
        modules = self._modules(folder)
        (folder / "setup.py").write_text(_SETUP)
        self.app.display_info(f"compiling {sum(map(len, modules))} modules; this takes one or two minutes")
        argument = ";".join(",".join(row) for row in (_MYPY, *modules))
        process = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace", argument],
            check=False, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if process.returncode:
            self.app.abort(f"{process.stdout[-4000:]}\n{_HINT}")
        build_data["infer_tag"], build_data["pure_python"] = True, False
        for library in (*folder.glob("*.so"), *folder.glob("nri/**/*.so")):
            build_data["force_include"][str(library)] = str(library.relative_to(folder))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copy."""
        if self._is_enabled(version):
            shutil.rmtree(self._folder)

    def _modules(self, folder: Path) -> tuple[list[str], list[str], list[str]]:
        """The files to compile: those of every plugin, those of a runtime, and those of runtimes and some plugins."""
        lists = module_lists(Path(self.root))
        paths: list[str] = []
        try:
            paths = compiled_files(folder, lists["modules"], lists["exceptions"])
        except ValueError as error:
            self.app.abort(f"{MODULES}: {error}")
        runtime = [path for path in paths if path.startswith("nri/adaptation/")]
        shared = [path for path in paths if path in lists["shared"]]
        return [path for path in paths if path not in (*runtime, *shared)], runtime, shared
