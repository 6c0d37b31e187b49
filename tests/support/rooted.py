"""Files below a root folder, as a copied /etc has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def below(root: Path, files: Mapping[str, str] | None = None) -> str:
    """Write files, by their paths as seen inside the root; gives the root."""
    for path, text in (files or {}).items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return str(root)
