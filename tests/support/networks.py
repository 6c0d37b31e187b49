"""Network namespaces for tests: the test's "host" is a namespace of its own, so that nothing reaches the machine's.

:func:`in_own_network` runs a test in a thread that has left the machine's network; all threads that it starts are in
the new one as well. :class:`Pod` is another namespace, with a file, as a pod has one.
"""

import ctypes
import functools
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

from tests.support.needs import need_machine, need_root, need_tool

CLONE_NEWNET = 0x40000000


P = ParamSpec("P")


def in_own_network(test: Callable[P, None]) -> Callable[P, None]:
    """Run a test in a network namespace of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        need_root()
        need_tool("ip")
        failed: list[BaseException] = []

        def inside() -> None:
            try:
                _leave_network()
                need_veth()
                test(*args, **kwargs)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=inside, name="test-own-network")
        thread.start()
        thread.join()
        if failed:
            raise failed[0]

    return run


def ip(*arguments: str) -> str:
    """Run `ip` in this thread's network; returns what it prints."""
    ran = subprocess.run([need_tool("ip"), *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"ip {' '.join(arguments)}: {ran.stderr}"
    return ran.stdout


def add_pair(name: str, peer: str) -> None:
    """Make two devices that are joined, both down."""
    ip("link", "add", name, "type", "veth", "peer", "name", peer)


class Pod:
    """The network of a pod: a process that sleeps in it, and its file."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.path = f"/proc/{process.pid}/ns/net"
        self._process = process

    def ip(self, *arguments: str) -> str:
        """Run `ip` in the pod's network."""
        entered = [need_tool("nsenter"), f"--net={self.path}", need_tool("ip"), *arguments]
        ran = subprocess.run(entered, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"ip {' '.join(arguments)} in the pod: {ran.stderr}"
        return ran.stdout

    def end(self) -> None:
        """End the process, and the namespace with it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def pod_network() -> Iterator[Pod]:
    """The network of a pod, for the length of a `with`."""
    process = subprocess.Popen([need_tool("unshare"), "-n", need_tool("sleep"), "600"])
    pod = Pod(process)
    try:
        while os.readlink(pod.path) == os.readlink("/proc/thread-self/ns/net"):
            assert process.poll() is None, "unshare -n has ended"
        yield pod
    finally:
        pod.end()


def _leave_network() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@functools.cache
def _has_veth() -> bool:
    result = subprocess.run(
        [need_tool("ip"), "link", "add", "nriprobe0", "type", "veth", "peer", "name", "nriprobe1"],
        capture_output=True,
        check=False,
    )
    if result.returncode == 0:
        ip("link", "del", "nriprobe0")
    return result.returncode == 0


def need_veth() -> None:
    """Go on only if the kernel has virtual network devices."""
    need_machine(_has_veth(), "virtual network devices (veth)")


@contextmanager
def host_device(name: str) -> Iterator[None]:
    """A network device of the machine, with a peer, for the length of a `with`."""
    need_veth()
    ip("link", "add", name, "type", "veth", "peer", "name", f"{name}p")
    try:
        ip("link", "set", f"{name}p", "up")
        yield
    finally:
        subprocess.run([need_tool("ip"), "link", "del", f"{name}p"], check=False, capture_output=True)
