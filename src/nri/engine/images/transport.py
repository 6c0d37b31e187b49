"""Copy images from registries and archives by skopeo.

Credentials are passed in a file of mode 0600 that exists only during the call, never on a command line.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nri.engine.images.registries import Credentials, Registry, auth_file, registries_conf
from nri.engine.support.command import run
from nri.engine.support.errors import CommandFailed, CommandTimeout, NotFound
from nri.files import walk

POLICY = Path("/etc/containers/policy.json")
_TOTAL_S = 3600.0
#: Convert zstd layers to gzip, because umoci does not unpack others. The configuration, and so the id, stays the same.
_AS_GZIP = ("--dest-compress-format=gzip",)
_MANIFEST_LIMIT = 4 << 20
_MISSING = (
    "manifest unknown",
    "name unknown",
    "repository name not known",
    "requested access to the resource is denied",
)
_FATAL = re.compile(r'level=fatal msg="((?:[^"\\]|\\.)*)"')
#: Go's escapes in quoted text; a byte that is not UTF-8 has two hexadecimal digits.
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_LETTERS = dict(zip('abfnrtv"\\', '\a\b\f\n\r\t\v"\\', strict=True))


class Progress(NamedTuple):
    """The progress of a pull. `total_bytes` is 0 while it is unknown."""

    done_bytes: int
    total_bytes: int


OnProgress = Callable[[Progress], None]


class Transport:
    """skopeo with the node's registries. A copy without progress for `stall_s` seconds is cancelled."""

    def __init__(self, skopeo: str = "skopeo", registries: Sequence[Registry] = (), *, stall_s: float = 60.0) -> None:
        self.skopeo = skopeo
        self.registries: Mapping[str, Registry] = {registry.host: registry for registry in registries}
        self.stall_s = stall_s

    def manifest(
        self, name: str, folder: Path, credentials: Credentials | None = None, *, of_config: bool = False
    ) -> bytes:
        """The unchanged manifest of a registry, or the configuration that it names.

        Raises NotFound, CommandFailed, CommandTimeout.
        """
        kind = ["--config"] if of_config else ["--no-tags"]
        arguments = ["inspect", "--raw", *kind, *self._options(name, folder, credentials, ""), f"docker://{name}"]
        return self._run(arguments, name, folder, timeout_s=self.stall_s, limit_bytes=_MANIFEST_LIMIT)

    def copy(
        self,
        source: str,
        layout: Path,
        folder: Path,
        credentials: Credentials | None = None,
        progress: OnProgress | None = None,
        total_bytes: int = 0,
        on_size: Callable[[int], None] | None = None,
    ) -> None:
        """Copy an image into a new OCI layout, with the tag ``pull``.

        `source` is an image name, or begins with a transport: ``oci-archive:``, ``docker-archive:``, ``oci:``.
        `on_size` receives the copied bytes a few times a second, and may raise to cancel the copy.
        """
        local = source.startswith(("oci-archive:", "docker-archive:", "oci:"))
        options = [] if local else self._options(source, folder, credentials, "src-")
        origin = source if local else f"docker://{source}"
        watch = _Watch(source, folder, self.stall_s, progress, total_bytes, on_size)
        arguments = ["copy", "--quiet", *_AS_GZIP, *options, origin, f"oci:{layout}:pull"]
        self._run(arguments, source, folder, timeout_s=_TOTAL_S, on_tick=watch)
        watch.finish()

    def _options(self, name: str, folder: Path, credentials: Credentials | None, prefix: str) -> list[str]:
        host = name.partition("/")[0]
        registry = self.registries.get(host, Registry(host))
        options = [f"--{prefix}cert-dir={registry.certificates}"] if registry.certificates else []
        if registry.insecure:
            options.append(f"--{prefix}tls-verify=false")
        if credentials is None:
            return [*options, f"--{prefix}no-creds"]
        path = folder / "auth.json"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(auth_file(host, credentials))
        return [*options, f"--{prefix}authfile={path}" if prefix == "" else f"--authfile={path}"]

    def _run(
        self, arguments: Sequence[str], name: str, folder: Path, *, timeout_s: float, limit_bytes: int = 1 << 20,
        on_tick: Callable[[int], None] | None = None,
    ) -> bytes:  # fmt: skip
        conf = folder / "registries.conf"
        conf.write_text(registries_conf(self.registries.values()))
        policy = [] if POLICY.exists() else ["--insecure-policy"]
        argv = [self.skopeo, *policy, f"--tmpdir={folder}", f"--registries-conf={conf}", *arguments]
        environment = {"TMPDIR": str(folder)}
        action = f"pulling {name}"
        try:
            output = run(
                argv, timeout_s=timeout_s, action=action, env=environment, limit_bytes=limit_bytes, check=False,
                on_tick=on_tick,
            )  # fmt: skip
        finally:
            (folder / "auth.json").unlink(missing_ok=True)
        if output.code:
            cause = fatal_message(output.stderr.decode(errors="replace"))
            if any(phrase in cause for phrase in _MISSING):
                raise NotFound("image", f"{name} ({cause})")
            raise CommandFailed(action, output.code, cause)
        return output.stdout


class _Watch:
    """Watches the size of a pull's folder, which has to grow, and reports it as progress."""

    def __init__(
        self, source: str, folder: Path, stall_s: float, progress: OnProgress | None, total_bytes: int,
        on_size: Callable[[int], None] | None,
    ) -> None:  # fmt: skip
        self._source, self._folder, self._stall_s = source, folder, stall_s
        self._progress, self._total, self._on_size = progress, total_bytes, on_size
        self._bytes, self._grown_at = -1, time.monotonic()

    def __call__(self, _pid: int) -> None:
        now, present = time.monotonic(), folder_bytes(self._folder)
        if self._on_size is not None:
            self._on_size(present)
        if present != self._bytes:
            self._bytes, self._grown_at = present, now
            self._report(present)
        elif now - self._grown_at > self._stall_s:
            raise CommandTimeout(f"pulling {self._source} without progress", self._stall_s)

    def finish(self) -> None:
        """Report the end."""
        self._report(self._total or folder_bytes(self._folder))

    def _report(self, present: int) -> None:
        if self._progress is not None:
            self._progress(Progress(min(present, self._total) if self._total else present, self._total))


def folder_bytes(folder: Path) -> int:
    """The size of all files below a folder; files that vanish meanwhile are ignored."""
    total = 0
    with suppress(OSError):
        for entry in walk(folder):
            total += 0 if stat.S_ISDIR(entry.found.st_mode) else entry.found.st_size
    return total


def fatal_message(text: str) -> str:
    """The message of skopeo's last fatal log line, or its last line."""
    messages = _FATAL.findall(text)
    if messages:
        return _unquoted(messages[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _unquoted(text: str) -> str:
    """Undo Go's quoting of a text; an escape that is not a character, for example a single byte, stays."""

    def character(escape: re.Match[str]) -> str:
        if len(escape[1]) == 1:
            return _LETTERS.get(escape[1], escape[0])
        number = int(escape[1][1:], 16)
        return chr(number) if number < 0xD800 or 0xDFFF < number <= 0x10FFFF else escape[0]

    return _ESCAPE.sub(character, text)
