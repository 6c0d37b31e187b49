"""Read the files that settings name: defaults of containers, seccomp profiles, hooks, devices and classes.

All files are read before any setting changes, so that an invalid file changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nri.config.complaint import combined_error
from nri.config.syntax import parse_json
from nri.engine.config import EngineConfig, ImageConfig
from nri.engine.config.registries_file import read_registries
from nri.engine.images.registry_rules import RegistryRules
from nri.engine.lifecycle.hooks import ContainerHooks
from nri.engine.network import Template, read_template
from nri.engine.spec import Base, base_of, base_problems, joined_bases
from nri.engine.spec.seccomp import host_profile
from nri.errors import ConfigError
from nri.files import open_regular
from nri.oci import BlockIoClasses, CdiDevices, RdtClasses

_MAX_SPEC_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """Settings, and the contents of the files that they name.

    Attributes:
        bases: the defaults of containers, by runtime handler.
        seccomp_profiles: the profile of containers that request the default, by runtime handler; None for the engine's.
        hooks: the OCI hooks of the node's directories.
        blockio: the block-I/O classes; None without a file of classes.
        registries: the rules for registries and short names.
        network: the template of the pod network; None without one.
    """

    config: EngineConfig
    bases: Mapping[str, Base]
    seccomp_profiles: Mapping[str, dict[str, Any] | None]
    hooks: ContainerHooks
    cdi: CdiDevices
    rdt: RdtClasses
    blockio: BlockIoClasses | None
    registries: RegistryRules
    network: Template | None


def read_settings_files(config: EngineConfig, architecture: str) -> SettingsFiles:
    """Read all files that the settings name. Raises ConfigError if a file is invalid."""
    containers, runtimes = config.containers, config.runtimes
    own_base = base_of(containers.base_spec())
    bases = {
        name: joined_bases(
            joined_bases(_read_base(name, settings.base_runtime_spec), own_base), base_of(settings.base_spec())
        )
        for name, settings in runtimes.items()
    }
    profiles = {
        name: _read_profile(name, settings.seccomp_profile, architecture) for name, settings in runtimes.items()
    }
    return SettingsFiles(
        config,
        bases,
        profiles,
        ContainerHooks(containers.hooks_dir),
        CdiDevices(containers.cdi_dirs),
        RdtClasses.read(containers.rdt_config) if containers.rdt_config else RdtClasses(),
        BlockIoClasses.read(containers.blockio_config) if containers.blockio_config else None,
        _read_registries(config.images),
        read_template(config.network.conf_template) if config.network.conf_template else None,
    )


def _read_registries(images: ImageConfig) -> RegistryRules:
    return RegistryRules(images.registries, read_registries(images.registries_conf) if images.registries_conf else None)


def _read_json(path: str, key: str) -> Any:
    """Read the JSON file that the key `key` names. Raises ConfigError if the file is invalid."""
    try:
        with open(path, "rb", opener=open_regular) as file:
            data = file.read(_MAX_SPEC_BYTES + 1)
        if len(data) > _MAX_SPEC_BYTES:
            raise ValueError(f"exceeds {_MAX_SPEC_BYTES} bytes")
        return parse_json(data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(path, "", f"cannot be read: {reason}", f"see {key}") from None


def _read_profile(handler: str, path: str, architecture: str) -> dict[str, Any] | None:
    """Read a seccomp profile. Returns None without a path. Raises ConfigError if the file is invalid."""
    if not path:
        return None
    profile = _read_json(path, key := f"runtimes.{handler}.seccomp_profile")
    try:
        if not isinstance(profile, dict):
            raise TypeError("expected an object")
        host_profile(profile, architecture, ())
    except (ValueError, TypeError) as error:
        raise ConfigError(path, "", f"not a seccomp profile: {error}", f"see {key}") from None
    return profile


def _read_base(handler: str, path: str) -> Base:
    """Read the defaults in a file. Without a path there are no defaults. Raises ConfigError if the file is invalid."""
    if not path:
        return Base()
    spec = _read_json(path, f"runtimes.{handler}.base_runtime_spec")
    if problems := base_problems(spec) if isinstance(spec, dict) else ["expected an object"]:
        raise combined_error([ConfigError(path, "", problem) for problem in problems])
    return base_of(spec)
