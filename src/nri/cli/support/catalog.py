"""The catalog of methods (`nri.trace.catalog`) with its errors as lines that name the options of the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.cli.errors import USAGE, Failure
from nri.config.complaint import suggest
from nri.errors import ConfigError
from nri.trace.catalog import Catalog

if TYPE_CHECKING:
    from pathlib import Path

    from nri.trace.catalog import Method


def open_catalog(descriptor_set: Path | None) -> Catalog:
    """Load NRI's methods, and those of a descriptor set. Failure says how to make a descriptor set."""
    try:
        return Catalog(descriptor_set)
    except ConfigError as error:
        step = error.suggestion[:1].upper() + error.suggestion[1:]
        raise Failure(f"{error.source}: {error.reason}. {step}", USAGE) from None


def resolve(catalog: Catalog, text: str) -> tuple[str, str]:
    """Return service and method of ``SERVICE/METHOD``; Failure if the text is not of this form."""
    try:
        return catalog.resolve(text)
    except ConfigError as error:
        raise Failure(f'"{error.source}" is {error.reason}, {error.suggestion}', USAGE) from None


def find(catalog: Catalog, service: str, name: str) -> Method:
    """Return a method. Failure says that it is not known, and how to go on."""
    method = catalog.find(service, name)
    if method is not None:
        return method
    known = catalog.methods(service)
    if known is None:
        raise Failure(f"the messages of {service} are not known here: give --descriptor-set FILE, or --hex", USAGE)
    raise Failure(f"{service} has no method {name} ({suggest(name, known)})", USAGE)
