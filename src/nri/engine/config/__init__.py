"""The engine's configuration. Every key of ``engine.toml`` is a field of the classes in `values`."""

from nri.engine.config.sources import ENGINE_SETTINGS
from nri.engine.config.values import (
    FIRST_DOMAIN,
    CgroupConfig,
    ContainerConfig,
    DomainConfig,
    EngineConfig,
    ImageConfig,
    NetworkConfig,
    NriConfig,
    OciRuntime,
    Registry,
    StreamingConfig,
    TracingConfig,
)

__all__ = [
    "ENGINE_SETTINGS",
    "FIRST_DOMAIN",
    "CgroupConfig",
    "ContainerConfig",
    "DomainConfig",
    "EngineConfig",
    "ImageConfig",
    "NetworkConfig",
    "NriConfig",
    "OciRuntime",
    "Registry",
    "StreamingConfig",
    "TracingConfig",
]
