"""The configuration of an image: the environment and the command line that a container starts with.

Next: `nri.kube.container`, which starts from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from nri.config import parse_text, read_file
from nri.errors import ConfigError
from nri.kube.document import Document

__all__ = ["ImageConfig", "read_image_config"]


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """An image's word about the process: environment, entry point, command."""

    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()


def read_image_config(path: str) -> ImageConfig:
    """Read an image's configuration: the OCI document, or what `docker inspect` and `skopeo inspect --config` print.

    Raises:
        ConfigError: the file cannot be read, or is no configuration of an image.
    """
    source = read_file(path)
    tree = root = parse_text(source)
    if isinstance(tree, list):
        tree = tree[0] if tree else {}
    config = tree.get("config", tree.get("Config", tree)) if isinstance(tree, dict) else None
    if not isinstance(config, dict):
        raise ConfigError(path, "config", "not the configuration of an image", "see: skopeo inspect --config")
    env, entrypoint, cmd = (tuple(Document(source, root).texts(config, key)) for key in ("Env", "Entrypoint", "Cmd"))
    return ImageConfig(env, entrypoint, cmd)
