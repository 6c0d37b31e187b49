"""The pinned namespaces of a pod, without root. tests/engine has real namespaces."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from nri.engine.lifecycle import pod_namespaces
from nri.engine.lifecycle.pod_namespaces import PodNamespaces, mapped_process
from nri.engine.support.errors import EngineError, MissingTool
from nri.engine.support.sysctls import Sysctl
from nri.errors import RequestError

SYSCTL = Sysctl(("net", "conf", "eth0.1", "forwarding"), "1", "linux.sysctls[x]")


class Kernel:
    """The calls that would change namespaces, noted with the thread that made them and what a sysctl was then."""

    def __init__(self, sysctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.threads: set[threading.Thread] = set()
        self.sysctl, self.sysctls = sysctl, ""
        for name in ("unshare", "setns", "enter", "mount"):
            monkeypatch.setattr(pod_namespaces, name, self._noting(name))
        monkeypatch.setattr(pod_namespaces.socket, "sethostname", self._noting("sethostname"))
        monkeypatch.setattr(pod_namespaces, "unmount", lambda *_, **__: False)

    def _noting(self, name: str) -> Any:
        def note(*args: Any, **_: Any) -> None:
            self.threads.add(threading.current_thread())
            self.calls.append((name, *args))
            self.sysctls += self.sysctl.read_text()

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
def sysctls(tmp_path: Path) -> Path:
    """A folder in place of /proc/sys, and a secret next to it."""
    (tmp_path / "sys/net/conf/eth0.1").mkdir(parents=True)
    (tmp_path / "sys/net/conf/eth0.1/forwarding").write_text("0")
    (tmp_path / "sys/net/link").symlink_to(tmp_path)
    (tmp_path / "sys/net/file").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "sys"


@pytest.fixture
def kernel(sysctls: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(sysctls / "net/conf/eth0.1/forwarding", monkeypatch)


def test_host_name_and_sysctls_are_set_before_pinning(kernel: Kernel, sysctls: Path, tmp_path: Path) -> None:
    make = PodNamespaces(kernel, sysctls).make("p1", tmp_path, {"network", "ipc", "uts"}, "web", [SYSCTL])  # type: ignore[arg-type]
    assert make == {"network": "/dev/null", "ipc": f"{tmp_path}/ipc", "uts": f"{tmp_path}/uts"}
    assert kernel.names == ["network", "setns", "unshare", "sethostname", "mount", "mount"]
    assert kernel.sysctls == "00011", "it is set before the first mount"
    (thread,) = kernel.threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_a_pod_in_the_nodes_namespaces_pins_none(kernel: Kernel, tmp_path: Path) -> None:
    assert PodNamespaces(kernel).make("p1", tmp_path, set(), "web", []) == {}  # type: ignore[arg-type]
    assert kernel.calls == []


def test_a_refusal_of_the_kernel_names_the_pod(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(pod_namespaces, "unshare", refuse)
    with pytest.raises(EngineError, match=r"namespaces of pod p1: .*not permitted"):
        PodNamespaces(kernel).make("p1", tmp_path, {"ipc"}, "", [])  # type: ignore[arg-type]


def test_removing_missing_namespaces_is_not_an_error(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "ipc").touch()
    namespaces = PodNamespaces(kernel)  # type: ignore[arg-type]
    namespaces.remove("p1", tmp_path)
    namespaces.remove("p1", tmp_path)
    assert kernel.calls == [("gone", "p1")] * 2
    assert not (tmp_path / "ipc").exists()


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (("net", "none"), r'linux.sysctls\[x\]: "1": the pod\'s namespaces have no such setting'),
        (("net", "link", "secret"), r'linux.sysctls\[x\]: "1": Not a directory'),
        (("net", "file"), r'linux.sysctls\[x\]: "1": Too many levels of symbolic links'),
        (("net", "conf"), r'linux.sysctls\[x\]: "1": Is a directory'),
    ],
)
def test_a_missing_sysctl_is_an_error_with_its_field(
    kernel: Kernel, sysctls: Path, tmp_path: Path, path: tuple[str, ...], problem: str
) -> None:
    sysctls_ = [Sysctl(path, "1", "linux.sysctls[x]")]
    with pytest.raises(RequestError, match=problem):
        PodNamespaces(kernel, sysctls).make("p1", tmp_path, {"ipc"}, "", sysctls_)  # type: ignore[arg-type]
    assert (tmp_path / "secret").read_text() == "secret"
    assert "mount" not in kernel.names


MAPPINGS = {key: [{"containerID": 0, "hostID": 100_000, "size": 65_536}] for key in ("uidMappings", "gidMappings")}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What is written below /proc, by the file's name; the program is `unshare` in a folder of the test."""
    texts: dict[str, str] = {}

    class Kernel:
        def __init__(self, path: str) -> None:
            self.path = path

        def write_text(self, text: str) -> None:
            texts[self.path.rpartition("/")[2]] = text

    monkeypatch.setattr(pod_namespaces, "Path", Kernel)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return texts


def unshare(folder: Path, script: str) -> None:
    (folder / "unshare").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "unshare").chmod(0o755)


def test_ids_are_mapped_in_a_process_that_ends_with_the_context(tmp_path: Path, written: dict[str, str]) -> None:
    unshare(tmp_path, f'echo "$@" > {tmp_path}/words; exec cat')
    with mapped_process({"network", "ipc"}, MAPPINGS) as pid:
        assert Path(f"/proc/{pid}").exists()
        assert written == {"uid_map": "0 100000 65536\n", "gid_map": "0 100000 65536\n"}
    assert not Path(f"/proc/{pid}").exists()
    assert (tmp_path / "words").read_text().split()[:3] == ["--user", "--net", "--ipc"]


@pytest.mark.parametrize("begin", ["", "exec <&-; ", "read line; "], ids=["at once", "before it is asked", "asked"])
def test_a_refusal_of_the_kernel_has_the_programs_message(tmp_path: Path, written: dict[str, str], begin: str) -> None:
    unshare(tmp_path, f'{begin}printf "unshare failed: " >&2; echo "No space left" >&2; exit 1')
    with (
        pytest.raises(EngineError, match=r"namespace: unshare failed: No space"),
        mapped_process({"ipc"}, MAPPINGS),
    ):
        pass
    assert written == {}


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match="util-linux"), mapped_process({"ipc"}, MAPPINGS):
        pass
