"""The versions of this package, of Python, of protobuf and of the kernel."""

from __future__ import annotations

import os
import platform

import google.protobuf
from google.protobuf.internal import api_implementation

from nri import wire
from nri.api.naming import NRI_VERSION
from nri.user_agent import package_version


def versions() -> dict[str, str | bool]:
    """Versions by name: this package and whether it is compiled, the NRI release, Python, protobuf, the kernel."""
    return {
        "nri": package_version(),
        "compiled": not wire.__file__.endswith(".py"),
        "nri_api": NRI_VERSION,
        "python": platform.python_version(),
        "protobuf": google.protobuf.__version__,
        "protobuf_backend": api_implementation.Type(),
        "kernel": os.uname().release,
        "machine": os.uname().machine,
    }
