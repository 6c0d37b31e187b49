"""Names of images in requests to the engine; the grammar is in `nri.cri.image_names`."""

from __future__ import annotations

from nri.cri import image_names
from nri.cri.image_names import DIGEST, Reference
from nri.engine.support.errors import InvalidRequest

__all__ = ["DIGEST", "Reference", "parse_reference"]


def parse_reference(text: str) -> Reference:
    """Parse an image's name and complete it. Raises InvalidRequest if the name is invalid."""
    try:
        return image_names.parse_reference(text)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
