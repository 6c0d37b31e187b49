"""Write and remove launchers in the folder from which runtimes start plugins."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import stat
import sys
import tempfile
from pathlib import Path

from nri.api.naming import check_index, check_name
from nri.errors import ConfigError, NriError
from nri.files import open_regular, remove_tree, rename_into, write_whole
from nri.text import nearest
from nri.unix import make_folder

#: Marks launchers that `nri enable` wrote: `nri disable` removes only files with this line.
MARK = "# Written by `nri enable`."


def command_of(file: Path) -> list[str]:
    """Return the command that starts the plugin. Raises NriError if the file cannot be a plugin."""
    with open(file, "rb", opener=open_regular) as opened:
        head = opened.read(1 << 20)
    if file.suffix == ".py" or re.match(rb"#!.*python", head):
        if not re.search(rb"\bmain\(|run_plugin\(", head):
            raise ConfigError(
                str(file), "", "the file never calls main(), so it would exit at once. Add at its end: MyPlugin.main()"
            )
        return [sys.executable, str(file)]
    if head.startswith(b"\0asm"):
        step = f"install -m 755 {shlex.quote(str(file))} /opt/nri/plugins/NN-name"
        raise NriError(f"{file}: the runtime itself loads WebAssembly, without a launcher. Install it: {step}")
    interpreter = re.match(rb"#![ \t]*([^ \t\n]+)", head)
    if interpreter is not None and not os.path.exists(interpreter[1]):
        reason = f"its interpreter {os.fsdecode(interpreter[1])!r} does not exist"
        raise ConfigError(str(file), "", f"does not start as the runtime would start it: {reason}")
    if not os.access(file, os.X_OK):
        raise ConfigError(str(file), "", f"neither a Python file nor executable. Run 'chmod +x {file}' first")
    return [str(file)]


def command_of_module(module: str) -> tuple[list[str], Path]:
    """Return the command that starts a module, and the module's file. Raises NriError if it cannot be started."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin:
        raise ConfigError(str(module), "", "module not found")
    file = Path(spec.origin).resolve()
    command_of(file)
    return [sys.executable, "-P", "-m", module], file  # -P: do not import from the working directory, which is /


def launcher(command: list[str], file_name: str) -> str:
    """Return the text of a launcher, in which every path is absolute: runtimes start plugins without PATH."""
    # A shell script, because a shebang accepts neither blanks nor long paths.
    words = " ".join(map(shlex.quote, command))
    return f'#!/bin/sh\n{MARK} Remove it with: nri disable {file_name}\nexec {words} "$@"\n'


def file_name_of(index: str, name: str) -> str:
    """Return ``NN-name``. Raises ConfigError if the index or the name is invalid."""
    try:
        check_index(index)
        check_name(name)
    except ValueError as error:
        raise ConfigError("command line", "", str(error)) from None
    return f"{index}-{name}"


def refuse_untrusted(path: Path) -> None:
    """Refuse a file that other users may change, or replace through a folder above it: a plugin runs as root."""
    for entry in (path, *path.parents):
        status = entry.stat()
        kind = "file" if entry == path else "folder"
        # In a sticky folder, for example /tmp, users cannot replace other users' files.
        sticky = kind == "folder" and status.st_mode & stat.S_ISVTX
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
            reason = (
                f"other users may write to this {kind} (mode {status.st_mode & 0o7777:04o}), and a plugin runs as root"
            )
            raise NriError(f"{entry}: {reason}. Run 'chmod go-w {entry}' first")
        if os.geteuid() == 0 and status.st_uid != 0:
            reason = f"this {kind} belongs to user {status.st_uid}, and a plugin runs as root"
            raise NriError(f"{entry}: {reason}. Move the plugin to a folder that only root may write, such as /opt")


def refuse_clash(folder: Path, file_name: str) -> None:
    """Refuse to replace a file that `nri enable` did not write, and a second index for the same name."""
    name = file_name.partition("-")[2]
    for other in sorted(folder.glob(f"[0-9][0-9]-{name}")):
        if other.name != file_name:
            raise NriError(
                f"{other}: {name} is already enabled with another index. Run 'nri disable {other.name}' first"
            )
        if not is_ours(other):
            raise NriError(f"{other}: a plugin that `nri enable` did not write has this name. Move it away first")


def others_of_index(folder: Path, file_name: str) -> list[str]:
    """List the other plugins in a folder with the index of `file_name`."""
    return [path.name for path in _files(folder) if path.name != file_name and path.name[:2] == file_name[:2]]


def is_ours(path: Path) -> bool:
    """Whether `nri enable` wrote the file."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            return MARK.encode() in file.read(512)
    except OSError:
        return False


def put(folder: Path, file_name: str, content: bytes, mode: int) -> None:
    """Create or replace a launcher in one step."""
    make_folder(str(folder / "NN-name"), 0o755)
    if folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NriError(
            f"{folder}: other users may write to this folder, whose files run as root. Run 'chmod go-w {folder}' first"
        )
    # Runtimes ignore folders in the plugin folder, but refuse to start if an executable in it fails.
    inner = Path(tempfile.mkdtemp(prefix=".nri-", dir=folder))
    try:
        write_whole(inner / file_name, content, mode)
        rename_into(inner / file_name, folder / file_name)
    finally:
        remove_tree(inner)


def find(folder: Path, name: str) -> Path | None:
    """Find the launcher of a name. Returns None if there is no launcher.

    Raises NriError if there are several launchers, or if `nri enable` did not write the launcher.
    """
    launchers = _with_name(name, _files(folder))
    if len(launchers) > 1:
        names = ", ".join(path.name for path in launchers)
        raise NriError(f"{folder}: several plugins are named {name}: {names}. Give the index as well")
    if launchers and not is_ours(launchers[0]):
        raise NriError(
            f"{launchers[0]}: not written by `nri enable`, so it is not removed. If you are sure: rm {launchers[0]}"
        )
    return launchers[0] if launchers else None


def find_left_over(folder: Path, drop_ins: Path, name: str) -> Path | None:
    """Find the drop-in configuration ``NN-name.conf`` of a plugin that was removed from the folder.

    Returns None if there is no file. Raises NriError if there are several files.
    """
    installed = {path.name for path in _files(folder)}
    files = [path.with_suffix("") for path in _files(drop_ins) if path.suffix == ".conf" and path.stem not in installed]
    drop_in_files = [path.with_name(f"{path.name}.conf") for path in _with_name(name, files)]
    if len(drop_in_files) > 1:
        names = ", ".join(path.name for path in drop_in_files)
        raise NriError(f"{drop_ins}: several files of {name} remain: {names}. Give the index as well")
    return drop_in_files[0] if drop_in_files else None


def not_there(folder: Path, name: str) -> NriError:
    """Return the error for a name without a plugin; it lists the plugins of the folder."""
    names = launched(folder)
    similar = nearest(name, [*names, *(file_name[3:] for file_name in names)])
    missing = "The folder is empty" if folder.is_dir() else "The folder does not exist"
    suggestion = f"Did you mean {similar}? " if similar else ""
    step = f"{suggestion}Plugins in the folder: {', '.join(names)}" if names else missing
    return NriError(f"{folder}: plugin {name} not found. {step}")


def launched(folder: Path) -> list[str]:
    """List the plugins that the runtime launches from a folder, as ``NN-name``."""
    return [path.name for path in _files(folder)]


def _files(folder: Path) -> list[Path]:
    """List the files in a folder whose names begin with an index. Returns an empty list without a folder.

    Raises OSError if the folder cannot be read.
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [folder / name for name in names if re.match(r"\d\d-.", name) and not (folder / name).is_dir()]


def _with_name(name: str, files: list[Path]) -> list[Path]:
    """Select the files of a plugin's name, which may begin with an index."""
    with_index = re.fullmatch(r"\d\d-.+", name) is not None
    return [path for path in files if (path.name if with_index else path.name[3:]) == name]
