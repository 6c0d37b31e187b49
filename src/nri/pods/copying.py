"""Copy files to and from a container with the `tar` program of its image, as `kubectl cp` does."""

from __future__ import annotations

import os
import posixpath
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, describe
from nri.pods.archive import Destination, pack, unpack
from nri.pods.stream import Streams, converse
from nri.text import plain

if TYPE_CHECKING:
    from nri.cri.client import CriClient

ReportLine = Callable[[str], None]
_MAX_ERROR_BYTES = 8192
#: How long to wait for the end of the other thread after a transfer, in seconds.
_END_TIMEOUT_S = 10.0


def copy_from(cri: CriClient, container_id: str, source: str, target: str, max_bytes: int, report: ReportLine) -> int:
    """Copy a file or folder of a container to this machine; returns the number of files.

    As with `cp -r`, an existing folder gets the copy as a new entry; otherwise `target` is the name of the copy.
    `report` is called with skipped entries. Raises NriError or OSError.
    """
    path = posixpath.normpath(source)
    parent, base = posixpath.split(path)
    base = base or "."
    if base == "..":
        raise NriError(f"{plain(source)}: specify a file or a folder, not the parent of a folder")
    if os.path.isdir(target) or base == ".":
        os.makedirs(target, exist_ok=True)
        destination = Destination(target, base, base, max_bytes)
    else:
        folder, name = os.path.split(os.path.abspath(target))
        destination = Destination(folder, base, name, max_bytes)
    reading, writing = os.pipe()
    program = _Tar(cri, container_id, ["tar", "-cf", "-", "-C", parent or ".", "--", f"./{base}"], output=writing)
    thread = threading.Thread(target=program.run, daemon=True)
    thread.start()
    with open(reading, "rb") as archive:
        files = unpack(archive, destination, report)
    thread.join(_END_TIMEOUT_S)
    program.check(source)
    return files


def copy_to(cri: CriClient, container_id: str, source: str, target: str, report: ReportLine) -> None:
    """Copy a file or folder of this machine into a container. `report` is called with entries that are left out.

    As with `cp -r`, an existing folder gets the copy as a new entry; otherwise `target` is the name of the copy.
    Raises NriError or OSError.
    """
    path = os.path.realpath(source)
    os.stat(path)
    is_folder = target.endswith("/") or _Tar(cri, container_id, ["test", "-d", target]).run() == 0
    inside = posixpath.normpath(posixpath.join(target, os.path.basename(path)) if is_folder else target)
    folder, name = posixpath.split(inside)
    reading, writing = os.pipe()
    program = _Tar(cri, container_id, ["tar", "-xmf", "-", "-C", folder or "."], stdin=reading)
    errors: list[OSError] = []

    def write() -> None:
        try:
            with open(writing, "wb") as archive:
                pack(path, f"./{name}", archive, report)
        except BrokenPipeError:  # the program in the container has ended, and its error is reported
            pass
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        program.run()
    finally:
        os.close(reading)
    thread.join(_END_TIMEOUT_S)
    if errors:
        raise errors[0]
    program.check(target)


class _Tar:
    """A program in a container: `run` waits for its end, `check` raises its error.

    Its standard output is written to the descriptor `output`, which is closed at the end.
    """

    def __init__(
        self, cri: CriClient, container_id: str, argv: list[str], *, output: int | None = None, stdin: int | None = None
    ) -> None:
        self._cri, self._argv, self._output, self._stdin = cri, argv, output, stdin
        self._request = pb.ExecRequest(
            container_id=container_id, cmd=argv, stdin=stdin is not None, stdout=True, stderr=True
        )
        self._messages = bytearray()
        self._code, self._error = 0, ""

    def run(self) -> int:
        """Run the program; returns its exit code, or 1 if it cannot be run."""
        try:
            url = self._cri.call("Exec", self._request).url
            self._code = converse(url, Streams(self._write, self._stdin), tty=False)
        except BrokenPipeError:  # the reader of its output has failed, and its error is reported
            pass
        except (NriError, OSError) as error:
            self._code, self._error = 1, describe(error)
        finally:
            if self._output is not None:
                os.close(self._output)
        return self._code

    def check(self, path: str) -> None:
        """Raise NriError if the program failed. `path` is the path in the container, for the error."""
        if not self._code:
            return
        messages = "; ".join(self._messages.decode(errors="replace").split("\n")).strip("; ")
        reason = self._error or messages or f"exit code {self._code}"
        hint = ""
        if self._error or self._code in (126, 127):
            program = self._argv[0]
            hint = f". Copying runs {program} in the container, so the container's image must contain {program}"
        raise NriError(f"{plain(path)}: {plain(reason)}{hint}")

    def _write(self, kind: str, data: bytes) -> None:
        if kind == "stderr":
            self._messages += data[: max(_MAX_ERROR_BYTES - len(self._messages), 0)]
        elif self._output is not None:
            view = memoryview(data)
            while view:
                view = view[os.write(self._output, view) :]
