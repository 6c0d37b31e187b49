"""The engine's configuration: one frozen value, and where each part of it came from.

Rules: nothing here looks for programs or changes the machine. Every key of ``engine.toml`` is a field of the classes in
`values`. Next: :mod:`nri.engine.config.values`.
"""

from nri.config.listing import Key, keys
from nri.engine.config.sources import DEFAULT_PATH, LoadedConfig, load_config
from nri.engine.config.values import (
    CgroupConfig,
    ContainerConfig,
    EngineConfig,
    ImageConfig,
    NetworkConfig,
    NriConfig,
    OciRuntime,
    Registry,
    StreamingConfig,
)

__all__ = [
    "DEFAULT_PATH",
    "CgroupConfig",
    "ContainerConfig",
    "EngineConfig",
    "ImageConfig",
    "LoadedConfig",
    "NetworkConfig",
    "NriConfig",
    "OciRuntime",
    "Registry",
    "StreamingConfig",
    "config_keys",
    "load_config",
]


def config_keys() -> list[Key]:
    """Every key that a file may have."""
    many = {"runtimes": ("runtimes.NAME", OciRuntime), "images.registries": ("images.registries[]", Registry)}
    return keys(EngineConfig(), many)
