"""One container runtime: its configuration files, keys and programs, as a row of `nri.config.runtimes.registry`."""

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
    """The file in which `nri config-manager` turns NRI on.

    Attributes:
        path: below the root folder; for the operator's own file, another one may be named.
        table: finds NRI's table for the content of the file, the runtime's release ("" if unknown) and the path.
            Raises ConfigError.
        new_text: what a new file begins with.
        is_operators: the operator edits this file too, so its old content is kept next to it.
        format: of the file.
        defaults: further keys of the table, which are set if the file does not have them.
    """

    path: str
    table: Callable[[Any, str, str], KeyPath]
    new_text: str = ""
    is_operators: bool = False
    format: Format = "toml"
    defaults: Mapping[str, str] = MappingProxyType({})


class Runtime(NamedTuple):
    """A container runtime with NRI.

    Attributes:
        name: as `Reading.runtime` has it, and as ids of containers begin ("cri-o://...").
        title: as people write it.
        path: its main configuration file.
        read: reads the configuration: files, release ("" if unknown), its main file if elsewhere.
        keys: a field of `RuntimeNri` -> its key in the file.
        enabled_value: the value of the key for `enabled` that turns NRI on.
        switch_on, allow_connections: what an operator does to turn NRI on, and to let plugins connect.
        program: the executable's name; also the name of the runtime on command lines.
        packages: its names in distributions.
        installed_paths: files or folders that exist where the runtime is installed.
        unit: the systemd unit.
        release: takes the release out of the output of `PROGRAM --version`; None if no rule depends on it.
        check_command: arguments with which the program reads its files and exits; "{path}" is the main file.
        cri_sockets: where it listens for the CRI, the usual place first.
        requires_plugin_config: it launches only plugins that have a configuration file.
        apply_command: the systemctl command after which the runtime uses a changed file.
        managed_file: None if config-manager does not know how to change this runtime.
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
    check_command: tuple[str, ...] = ()
    cri_sockets: tuple[str, ...] = ()
    requires_plugin_config: bool = False
    apply_command: str = "restart"
    managed_file: ManagedFile | None = None
