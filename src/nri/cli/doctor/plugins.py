"""Check the folder from which the runtime launches plugins, its drop-in configuration, and notes of failed plugins."""

from __future__ import annotations

import os
import re
import stat
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from nri.api.naming import check_name, is_full_name, split_file_name
from nri.cli.doctor import Finding, engine
from nri.cli.output import age
from nri.config.root import resolve_below
from nri.files import open_regular
from nri.stub.program.failure_note import note_path, read_notes
from nri.text import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nri.config.runtimes.reading import RuntimeNri


def check(root: str, nri: RuntimeNri, findings: list[Finding]) -> dict[str, str]:
    """Check every file of the plugin folder and of the drop-in folder.

    Returns the path of each plugin that is launched as a program, by ``NN-name``.
    """
    names: dict[str, list[str]] = {}
    programs: dict[str, str] = {}
    for file_name, real in _executables(root, nri.plugin_path, findings):
        path = f"{nri.plugin_path}/{file_name}"
        try:
            index, name = split_file_name(file_name)
            check_name(name)
        except ValueError as error:
            step = (
                "rename it to NN-name, or remove its execute bit: one invalid name keeps containerd's NRI from starting"
            )
            findings.append(Finding("problem", str(error), path, step))
            continue
        names.setdefault(index, []).append(name)
        _check_trust(path, real, findings)
        if _is_wasm(real):
            _wasm(nri, path, findings)
        else:
            programs[file_name] = path
            _interpreter(root, path, real, findings)
    for index, same_index in names.items():
        if len(same_index) > 1:
            what = f"{', '.join(sorted(same_index))} share index {index}: their order is not defined"
            findings.append(
                Finding("note", what, nri.plugin_path, "give them different indices if their order matters")
            )
    plugins = {f"{index}-{name}" for index, same_index in names.items() for name in same_index}
    _required(nri, plugins, findings)
    _drop_ins(root, nri, plugins, findings)
    findings.append(
        Finding(
            "ok",
            f"{nri.name} launches {count(len(plugins), 'plugin')}: {', '.join(sorted(plugins))}"
            if plugins
            else f"{nri.name} launches no plugins",
            nri.plugin_path,
        )
    )
    return programs


def _executables(root: str, folder: str, findings: list[Finding]) -> Iterator[tuple[str, str]]:
    """Yield name and real path of each file that the runtime would launch; a symbolic link is always launched."""
    real = resolve_below(root, folder)
    try:
        entries = sorted(os.scandir(real), key=lambda entry: entry.name)
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        findings.append(Finding("problem", f"cannot be read: {error.strerror}", folder, "run the doctor as root"))
        return
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        step = f"chmod go-w {folder}"
        findings.append(
            Finding(
                "problem", "users other than its owner may add programs to this folder, which run as root", folder, step
            )
        )
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            continue
        if not entry.is_symlink() and not entry.stat().st_mode & 0o111:
            step = f"chmod +x {folder}/{entry.name}, if it is a plugin"
            findings.append(
                Finding("note", "not executable, so the runtime ignores it", f"{folder}/{entry.name}", step)
            )
            continue
        yield entry.name, resolve_below(root, f"{folder}/{entry.name}")


def _check_trust(path: str, real: str, findings: list[Finding]) -> None:
    """Check which users may change a plugin. A plugin runs as root, so only root should be allowed to."""
    try:
        status = os.stat(real)
    except OSError:
        findings.append(
            Finding(
                "problem",
                "the target of the link does not exist",
                path,
                "remove the link (nri disable), or restore its target",
            )
        )
        return
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        what = (
            f"users other than its owner may write to this file (mode {status.st_mode & 0o777:04o}), which runs as root"
        )
        findings.append(Finding("problem", what, path, f"chmod go-w {path}"))
    if not stat.S_ISREG(status.st_mode):
        findings.append(Finding("problem", "not a regular file, so it cannot be launched", path, f"rm {path}"))
    elif not status.st_mode & 0o111:
        findings.append(Finding("problem", "the link's target is not executable", path, "chmod +x its target"))


def _is_wasm(real: str) -> bool:
    try:
        with open(real, "rb", opener=open_regular) as file:
            return file.read(8) == b"\0asm\1\0\0\0"
    except OSError:
        return False


def _wasm(nri: RuntimeNri, path: str, findings: list[Finding]) -> None:
    """Check whether a runtime can load WebAssembly: our engine needs wasmtime, other runtimes must be built with it."""
    if nri.name != engine.NAME:
        findings.append(
            Finding("note", f"WebAssembly: {nri.name} loads it only if built with WebAssembly support", path)
        )
    elif find_spec("wasmtime") is None:
        findings.append(
            Finding(
                "problem",
                "WebAssembly: wasmtime is required and not installed",
                path,
                "pip install '.[wasm]', in a checkout of nri",
            )
        )
    else:
        findings.append(Finding("ok", f"WebAssembly: {nri.name} loads it into its own process", path))


def _interpreter(root: str, path: str, real: str, findings: list[Finding]) -> None:
    """Check a plugin's interpreter: it must exist, with an absolute path, because launched plugins do not have PATH."""
    try:
        with open(real, "rb", opener=open_regular) as file:
            first = file.readline(256).decode("utf-8", errors="replace").strip()
    except OSError:
        return
    if not first.startswith("#!"):
        return
    words = first[2:].split()
    if words and os.path.basename(words[0]) == "env":
        step = "write the interpreter's absolute path, or use `nri enable`, which writes a launcher with this path"
        findings.append(
            Finding(
                "warning",
                f'"{first}" searches PATH for its interpreter, but runtimes launch plugins without PATH',
                path,
                step,
            )
        )
    elif words and not os.path.exists(resolve_below(root, words[0])):
        findings.append(
            Finding(
                "problem", f'its interpreter "{words[0]}" does not exist', path, "install it, or run `nri enable` again"
            )
        )


def _required(nri: RuntimeNri, plugins: set[str], findings: list[Finding]) -> None:
    for required in nri.required:
        named = plugins if is_full_name(required) else {plugin.partition("-")[2] for plugin in plugins}
        if required not in named:
            what = f'plugin "{required}" is required: no container can be created until it is connected'
            step = "enable it, unless it connects by itself"
            findings.append(Finding("warning", what, nri.origin.get("required", nri.name), step))


def _drop_ins(root: str, nri: RuntimeNri, plugins: set[str], findings: list[Finding]) -> None:
    """Find drop-in files that no plugin reads. For 10-foo the runtime reads 10-foo.conf, else foo.conf."""
    try:
        files = sorted(os.listdir(resolve_below(root, nri.plugin_config_path)))
    except OSError:
        return
    readers = plugins | {plugin.partition("-")[2] for plugin in plugins}
    for file in files:
        stem, suffix = os.path.splitext(file)
        path = f"{nri.plugin_config_path}/{file}"
        if suffix != ".conf":
            findings.append(Finding("note", "the name does not end with .conf, so no plugin reads the file", path))
        elif stem not in readers:
            what = f"no plugin named {stem} in {nri.plugin_path} reads it"
            step = "external plugins do not get drop-in files: use their --config instead"
            findings.append(Finding("note", what, path, step))
        elif re.fullmatch(r"\d\d-.+", stem) is None and any(
            f"{plugin}.conf" in files for plugin in plugins if plugin[3:] == stem
        ):
            findings.append(
                Finding(
                    "warning",
                    f"ignored: NN-{file}, which has the index in its name, takes precedence",
                    path,
                    "remove one of the two files",
                )
            )


def check_failed(root: str, sockets: Iterable[str], findings: list[Finding]) -> None:
    """Report the note of every plugin that failed, once for each folder that contains a socket of `sockets`."""
    folders: set[str] = set()
    for socket in sockets:
        folder = resolve_below(root, os.path.dirname(socket))
        if folder in folders:
            continue
        folders.add(folder)
        for note in read_notes(folder):
            path = note_path(socket, note.plugin)
            what = (
                f"plugin {note.plugin} failed {age(time.time() - note.time_s)} ago (process {note.pid}): {note.error}"
            )
            step = (
                f"fix the cause and start it again, which removes this note; if the plugin is no longer used: rm {path}"
            )
            findings.append(Finding("problem", what, path, step))
