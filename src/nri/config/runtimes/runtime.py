"""A container runtime with its configuration files, keys and programs: a row of `nri.config.runtimes.registry`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nri.config.runtimes.config_file import KeyPath
    from nri.config.runtimes.file_tree import FileTree
    from nri.config.runtimes.reading import Reading
    from nri.config.source import Format


class ManagedFile(NamedTuple):
    """The file in which `nri config-manager` enables NRI.

    Attributes:
        path: the path below the root folder; users may name another path for the operator's file.
        table: returns NRI's table for the content of the file, the runtime's release ("" if unknown) and the path.
            Raises ConfigError if the table is not known.
        new_text: the first lines of a new file.
        is_operators: whether the operator edits this file, too, so that a copy of its old content is kept.
        format: the format of the file.
        defaults: further keys of the table, which are set if the file does not have them, or has them as false.
        whole_seconds: whether timeouts are numbers of seconds instead of strings.
        is_fixed: whether the runtime cannot be started with a file at another path.
        caution: a fault of the runtime that operators must know before they enable NRI, or "".
    """

    path: str
    table: Callable[[Any, str, str], KeyPath]
    new_text: str = ""
    is_operators: bool = False
    format: Format = "toml"
    defaults: Mapping[str, bool | str] = MappingProxyType({})
    whole_seconds: bool = False
    is_fixed: bool = False
    caution: str = ""


class Runtime(NamedTuple):
    """A container runtime with NRI.

    Attributes:
        name: the name in `Reading.runtime`, and the scheme of container ids ("cri-o://...").
        title: the usual spelling of its name.
        path: its main configuration file.
        read: reads the configuration, with the files, the release ("" if unknown), and the main file ("" for default).
        keys: the keys in the file, by field of `RuntimeNri`.
        enabled_value: the value of the key for `enabled` that enables NRI.
        switch_on: an operator's step to enable NRI.
        allow_connections: an operator's step to let plugins connect.
        program: the name of the executable, which is also the name of the runtime on command lines.
        packages: its names in distributions.
        installed_paths: files or folders that exist if the runtime is installed.
        unit: the systemd unit.
        release: finds the release in the output of `PROGRAM --version`; None if the rules do not depend on it.
        config_flags: the flags that name its main file on its command line.
        check_command: arguments with which the program reads its files and exits; "{path}" is the main file.
        cri_sockets: the possible sockets of the CRI, the default first.
        requires_plugin_config: whether the runtime launches only plugins that have a configuration file.
        apply_command: the systemctl command after which the runtime uses a changed file.
        managed_file: the file that config-manager changes, or None if config-manager does not support the runtime.
    """

    name: str
    title: str
    path: str
    read: Callable[[FileTree, str, str], Reading]
    keys: Mapping[str, str]
    enabled_value: bool
    switch_on: str
    allow_connections: str
    program: str
    packages: tuple[str, ...] = ()
    installed_paths: tuple[str, ...] = ()
    unit: str = ""
    release: Callable[[str], str] | None = None
    config_flags: tuple[str, ...] = ()
    check_command: tuple[str, ...] = ()
    cri_sockets: tuple[str, ...] = ()
    requires_plugin_config: bool = False
    apply_command: str = "restart"
    managed_file: ManagedFile | None = None
