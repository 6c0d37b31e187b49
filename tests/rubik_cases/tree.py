"""The files of a case below the roots of cgroup v1, resctrl and /proc/qos, and its pods.

Next: `tests.rubik_cases.frame`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from nri.host.cgroups import knob
from nri.policies.rubik.pods import Container, Pod
from nri.policies.writes import Write

__all__ = ["Files", "number", "pod_of"]

Json = dict[str, Any]


def pod_of(given: Json) -> Pod:
    """Return a pod of a case; a limit that is not there is 0, as there."""
    started = given.get("start_time")
    containers = (
        Container(each["id"], each["name"], each["cgroup_path"], each.get("cpu_limit") or 0)
        for each in given.get("containers") or ()
    )
    return Pod(
        uid=given["uid"],
        name=given["name"],
        namespace=given["namespace"],
        folder=given["cgroup_path"],
        annotations=given.get("annotations") or {},
        labels=given.get("labels") or {},
        host_network=bool(given.get("host_network")),
        started=datetime.fromisoformat(started).timestamp() if started else None,
        containers=tuple(containers),
    )


def number(text: str | None) -> int | None:
    """Return a file's number; None if there is none."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


class Files:
    """Files by path; one that is not there is not made. `writes` has every text that was written to each."""

    def __init__(self, given: Json | None) -> None:
        self.now: dict[str, str] = dict(given or {})
        self._before = dict(self.now)
        self.writes: dict[str, list[str]] = {}
        self.failed = False

    def path(self, folder: str, name: str) -> str:
        """Return the file of a knob."""
        place = knob(name).v1[0]
        return "/".join(filter(None, (place.controller, folder.strip("/"), place.file)))

    def read(self, folder: str, name: str) -> str | None:
        """Return a knob's text; None if there is no such file."""
        return self.now.get(self.path(folder, name))

    def number(self, folder: str, name: str) -> int | None:
        """Return a knob's number."""
        return number(self.read(folder, name))

    def put(self, path: str, text: str) -> bool:
        """Write a file; return whether it is there, as those of /proc are that are written."""
        if path not in self.now and not path.startswith("proc/"):
            self.failed = True
            return False
        self.now[path] = text
        self.writes.setdefault(path, []).append(text)
        return True

    def apply(self, writes: Iterable[Write], *, stop: bool = False, whole: bool = False) -> bool:
        """Apply writes; go on after a failure, or stop there, or put all back. Return whether none failed."""
        before, good = dict(self.now), True
        for write in writes:
            good = self.put(self.path(write.folder, write.knob), write.value) and good
            if not good and whole:
                self.now = before
            if not good and (whole or stop):
                break
        return good

    def changed(self) -> dict[str, str]:
        """Return the files with another text than before."""
        return {path: text for path, text in self.now.items() if self._before.get(path) != text}

    def forget(self) -> None:
        """Compare with what is there now from here on."""
        self._before = dict(self.now)
