"""The pinned namespaces of a pod, as far as that needs no root; tests/engine makes real ones."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from nri.engine.lifecycle.parts import pod_namespaces
from nri.engine.lifecycle.parts.pod_namespaces import PodNamespaces
from nri.engine.support.errors import EngineError


class Kernel:
    """The calls that would change namespaces, noted with the thread that made them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.threads: set[threading.Thread] = set()
        for name in ("unshare", "setns", "enter", "mount", "_write_sysctl"):
            monkeypatch.setattr(pod_namespaces, name, self._noting(name))
        monkeypatch.setattr(pod_namespaces.socket, "sethostname", self._noting("sethostname"))
        monkeypatch.setattr(pod_namespaces, "unmount", lambda *_, **__: False)

    def _noting(self, name: str) -> Any:
        def note(*args: Any, **_: Any) -> None:
            self.threads.add(threading.current_thread())
            self.calls.append((name, *args))

        return note

    def create(self, name: str, of: int = 0) -> Path:
        """A network's namespace: `NetworkNamespaces.create`."""
        self.calls.append(("network", name, of))
        return Path("/dev/null")

    def remove(self, name: str) -> None:
        self.calls.append(("gone", name))

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def test_host_name_and_sysctls_are_set_inside_before_all_is_pinned(kernel: Kernel, tmp_path: Path) -> None:
    made = PodNamespaces(kernel).make("p1", tmp_path, {"network", "ipc", "uts"}, "web", {"net.a": "1"})  # type: ignore[arg-type]
    assert made == {"network": "/dev/null", "ipc": f"{tmp_path}/ipc", "uts": f"{tmp_path}/uts"}
    assert kernel.names == ["network", "setns", "unshare", "sethostname", "_write_sysctl", "mount", "mount"]
    (thread,) = kernel.threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_a_pod_on_the_nodes_namespaces_makes_none(kernel: Kernel, tmp_path: Path) -> None:
    assert PodNamespaces(kernel).make("p1", tmp_path, set(), "web", {}) == {}  # type: ignore[arg-type]
    assert kernel.calls == []


def test_what_the_kernel_refuses_names_the_pod(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(pod_namespaces, "unshare", refuse)
    with pytest.raises(EngineError, match=r"namespaces of pod p1: .*not permitted"):
        PodNamespaces(kernel).make("p1", tmp_path, {"ipc"}, "", {})  # type: ignore[arg-type]


def test_all_of_a_pod_go_and_those_that_are_not_there_are_no_error(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "ipc").touch()
    found = PodNamespaces(kernel)  # type: ignore[arg-type]
    found.remove("p1", tmp_path)
    found.remove("p1", tmp_path)
    assert kernel.calls == [("gone", "p1")] * 2
    assert not [*tmp_path.iterdir()]
