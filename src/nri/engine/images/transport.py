"""Copy images from registries and archives by skopeo.

Credentials are passed in a file of mode 0600 that exists only during the call. They are never on a command line.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import NamedTuple, Self

from nri.engine.images.credentials import Credentials, auth_file, node_credentials
from nri.engine.images.pull_timer import COPYING, PullTimer
from nri.engine.images.registry_rules import RegistryRules, without_tag
from nri.engine.support.command import run
from nri.engine.support.errors import CommandFailed, InvalidRequest, NotFound
from nri.files import private_folder, walk

POLICY = Path("/etc/containers/policy.json")
#: Convert zstd layers to gzip, because umoci cannot unpack zstd. The configuration and the id do not change.
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
    """skopeo with the node's registries.

    A request, or a copy without progress, is cancelled after `stall_s` seconds, and a pull after `total_s`.
    """

    def __init__(
        self,
        skopeo: str = "skopeo",
        registries: RegistryRules | None = None,
        *,
        stall_s: float = 60.0,
        total_s: float = 4 * 3600.0,
        credentials_file: str = "",
        policy: str = "",
    ) -> None:
        self.skopeo, self._credentials_file, self._policy = skopeo, credentials_file, policy
        self.registries = registries or RegistryRules()
        self.stall_s, self.total_s = stall_s, total_s
        self._timer: PullTimer | None = None

    def timer(self, name: str) -> PullTimer:
        """Start the deadlines of a pull."""
        return PullTimer(name, self.stall_s, self.total_s)

    def timed(self, timer: PullTimer) -> Self:
        """Return a copy whose calls end at the deadlines of a pull."""
        timed = copy(self)
        timed._timer = timer
        return timed

    def manifest(
        self, name: str, folder: Path, credentials: Credentials | None = None, *, of_config: bool = False
    ) -> bytes:
        """Return the unchanged manifest of an image in a registry. With `of_config`, return the image's configuration.

        Raises NotFound if the image does not exist, and CommandFailed or CommandTimeout if skopeo fails.
        """
        kind = ["--config"] if of_config else ["--no-tags"]
        arguments = ["inspect", "--raw", *kind, *self._options(name, folder, credentials, ""), f"docker://{name}"]
        timeout_s = min(self.stall_s, (self._timer or self.timer(name)).remaining_s())
        return self._run(arguments, name, folder, timeout_s=timeout_s, limit_bytes=_MANIFEST_LIMIT)

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
        timer = self._timer or self.timer(source)
        watch = _Watch(folder, timer, progress, total_bytes, on_size)
        arguments = ["copy", "--quiet", *_AS_GZIP, *options, origin, f"oci:{layout}:pull"]
        self._run(arguments, source, folder, timeout_s=timer.remaining_s(), on_tick=watch)
        watch.finish()

    def _options(self, name: str, folder: Path, credentials: Credentials | None, prefix: str) -> list[str]:
        rule = self.registries.rule(name)
        if rule.blocked:
            raise InvalidRequest(
                f"image {name}: the registry {rule.prefix} is blocked on this node (images.registries)"
            )
        logins = self._logins(name, credentials)
        options = [f"--{prefix}cert-dir={rule.certificates}"] if rule.certificates else []
        if not logins:
            return [*options, f"--{prefix}no-creds"]
        path = folder / "auth.json"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(auth_file(logins))
        return [*options, f"--{prefix}authfile={path}" if prefix == "" else f"--authfile={path}"]

    def _logins(self, name: str, credentials: Credentials | None) -> dict[str, Credentials]:
        """Return logins by registry or repository. Those of a request are never sent to mirrors, the node's may be."""
        if credentials is not None:
            return {name.partition("/")[0]: credentials}
        if not self._credentials_file:
            return {}
        endpoints = dict.fromkeys([name, *self.registries.endpoints(name)])
        rows = {endpoint: node_credentials(self._credentials_file, endpoint) for endpoint in endpoints}
        return {without_tag(endpoint): login for endpoint, login in rows.items() if login is not None}

    def _run(
        self, arguments: Sequence[str], name: str, folder: Path, *, timeout_s: float, limit_bytes: int = 1 << 20,
        on_tick: Callable[[int], None] | None = None,
    ) -> bytes:  # fmt: skip
        conf = folder / "registries.conf"
        conf.write_text(self.registries.conf())
        policy = [f"--policy={self._policy}"] if self._policy else [] if POLICY.exists() else ["--insecure-policy"]
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


def skip_blobs(layout: Path, digests: Iterable[str]) -> None:
    """Create empty files for some layers in a new layout, so that skopeo does not copy these layers."""
    folder = private_folder(layout / "blobs/sha256")
    for digest in digests:
        (folder / digest.partition(":")[2]).touch()


class _Watch:
    """Reports the size of a pull's folder as progress, and checks the deadlines of the pull."""

    def __init__(
        self, folder: Path, timer: PullTimer, progress: OnProgress | None, total_bytes: int,
        on_size: Callable[[int], None] | None,
    ) -> None:  # fmt: skip
        self._folder, self._timer, self._bytes = folder, timer, -1
        self._progress, self._total, self._on_size = progress, total_bytes, on_size
        timer.start_step(COPYING)

    def __call__(self, _pid: int) -> None:
        present = folder_bytes(self._folder)
        if self._on_size is not None:
            self._on_size(present)
        if present != self._bytes:
            self._bytes = present
            self._report(present)
        self._timer.check(present)

    def finish(self) -> None:
        """Report that the pull is complete."""
        self._report(self._total or folder_bytes(self._folder))

    def _report(self, present: int) -> None:
        if self._progress is not None:
            self._progress(Progress(min(present, self._total) if self._total else present, self._total))


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder. Files that vanish during the count are ignored."""
    total = 0
    with suppress(OSError):
        for entry in walk(folder):
            total += 0 if stat.S_ISDIR(entry.status.st_mode) else entry.status.st_size
    return total


def fatal_message(text: str) -> str:
    """Return the message of skopeo's last fatal log line, or the last line of its output."""
    messages = _FATAL.findall(text)
    if messages:
        return _unquoted_text(messages[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _unquoted_text(text: str) -> str:
    """Undo Go's quoting of a string. An escape that is not a character, for example a single byte, stays."""

    def character(escape: re.Match[str]) -> str:
        if len(escape[1]) == 1:
            return _LETTERS.get(escape[1], escape[0])
        number = int(escape[1][1:], 16)
        return chr(number) if number < 0xD800 or 0xDFFF < number <= 0x10FFFF else escape[0]

    return _ESCAPE.sub(character, text)
