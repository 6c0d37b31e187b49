"""One image on this node, as the store gives it out.

Next: :mod:`nri.engine.images.store`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Image"]


@dataclass(frozen=True, slots=True)
class Image:
    """An image on this node. `config` is the part of its configuration that containers take over."""

    id: str
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size_bytes: int = 0
    inodes: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    pulled_at_ns: int = 0

    @property
    def user(self) -> str:
        """The user that it runs as, as written: ``name``, ``uid`` or with a group."""
        return str(self.config.get("User") or "")

    @property
    def entrypoint(self) -> list[str]:
        """The first words of its command line."""
        return list(self.config.get("Entrypoint") or ())

    @property
    def cmd(self) -> list[str]:
        """The rest of its command line, unless a container has its own."""
        return list(self.config.get("Cmd") or ())

    @property
    def env(self) -> list[str]:
        """Its environment, as ``KEY=value``."""
        return list(self.config.get("Env") or ())

    @property
    def working_dir(self) -> str:
        """The folder that it starts in."""
        return str(self.config.get("WorkingDir") or "")

    @property
    def stop_signal(self) -> str:
        """The signal that asks it to end."""
        return str(self.config.get("StopSignal") or "")

    @property
    def labels(self) -> dict[str, str]:
        """The labels that its maker gave it."""
        return dict(self.config.get("Labels") or {})
