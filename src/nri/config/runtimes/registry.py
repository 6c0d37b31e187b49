"""The container runtimes with readable configuration, in the order of the doctor's report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.config.runtimes import containerd, crio, docker, isulad

if TYPE_CHECKING:
    from nri.config.runtimes.runtime import Runtime

RUNTIMES: tuple[Runtime, ...] = (containerd.RUNTIME, crio.RUNTIME, isulad.RUNTIME, docker.RUNTIME)
