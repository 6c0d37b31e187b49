"""The versions of everything that matters when something goes wrong.

Next: `nri.cli.verbs.version`, which prints them.
"""

from __future__ import annotations

import os
import platform
from importlib import metadata

import google.protobuf
from google.protobuf.internal import api_implementation

from nri import wire
from nri.api.naming import NRI_VERSION


def versions() -> dict[str, str | bool]:
    """Return versions by name: this package and if it is compiled, the NRI it speaks, Python, protobuf, the kernel."""
    try:
        own = metadata.version("nri")
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        own = "unknown"
    return {
        "nri": own,
        "compiled": not wire.__file__.endswith(".py"),
        "nri_api": NRI_VERSION,
        "python": platform.python_version(),
        "protobuf": google.protobuf.__version__,
        "protobuf_backend": api_implementation.Type(),
        "kernel": os.uname().release,
        "machine": os.uname().machine,
    }
