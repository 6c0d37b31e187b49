"""Pods whose ids are mapped: the process that their namespaces come from, and how their files come to have owners.

Rules: in a process with threads none can make a namespace of users, so a program of util-linux does, and ends as soon
as all is pinned; its namespaces belong to its namespace of users. Next:
:mod:`nri.engine.lifecycle.parts.pod_namespaces`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from nri.engine.support.errors import EngineError, ToolMissing

__all__ = ["IdMappings", "mapped_process"]

#: ``uidMappings`` and ``gidMappings`` of a spec.
IdMappings = Mapping[str, Sequence[Mapping[str, int]]]

_FLAGS = {"network": "--net", "ipc": "--ipc", "uts": "--uts"}
_FILES = {"uidMappings": "uid_map", "gidMappings": "gid_map"}


@contextmanager
def mapped_process(kinds: set[str], mappings: IdMappings) -> Iterator[int]:
    """A process in new namespaces of these kinds and of users, with these ids mapped, for as long as the context.

    Raises EngineError.
    """
    program, cat = shutil.which("unshare"), shutil.which("cat")
    if program is None or cat is None:
        raise ToolMissing("unshare (util-linux), for pods with a user namespace")
    argv = [program, "--user", *(flag for kind, flag in _FLAGS.items() if kind in kinds), cat]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            # What comes back has been through the program that is started when all namespaces are there.
            with suppress(BrokenPipeError):  # it has ended already, and says why
                os.write(process.stdin.fileno(), b"\n")  # past the buffer, which would try again at its end
            if process.stdout.read(1) != b"\n":
                raise EngineError(f"no user namespace: {process.stderr.read(1000).decode(errors='replace').strip()}")
            for key, name in _FILES.items():
                text = "".join(f"{row['containerID']} {row['hostID']} {row['size']}\n" for row in mappings[key])
                Path(f"/proc/{process.pid}/{name}").write_text(text)
            yield process.pid
        except OSError as error:
            raise EngineError(f"no user namespace: {error}") from error
        finally:
            process.kill()
