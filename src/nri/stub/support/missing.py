"""What an author may have meant by an attribute that is not there. Loaded only where a handler has failed so."""

from __future__ import annotations

import difflib
from contextlib import suppress

from nri.api import messages as m
from nri.api.builders.view import ResourceView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["meant"]


def meant(error: AttributeError) -> str:
    """The nearest attribute, or where a resource is read, behind a colon or semicolon; "" if there is none."""
    holder: Any = error.obj
    name = error.name or ""
    near: list[str] = []
    with suppress(Exception):  # the author's own class may fail at anything
        if isinstance(holder, (m.Container, m.LinuxResources)) and hasattr(ResourceView, name):
            return f": {type(holder).__name__} has no such field; read it with nri.resources_of(...).{name}"
        descriptor = getattr(type(holder), "DESCRIPTOR", None)
        known = dir(holder) if descriptor is None else [field.name for field in descriptor.fields]
        near = difflib.get_close_matches(name, [each for each in known if not each.startswith("_")], 1)
    return f"; did you mean {near[0]}?" if near else ""
