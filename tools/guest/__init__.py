"""A Linux machine with cgroup v2 only and two NUMA nodes, emulated: for tests of what this machine's kernel has not.

Rules: QEMU without KVM, so it runs wherever QEMU does, ten to twenty times slower than the machine itself. Its root is
this machine's own root directory, read-only, with memory over it: the same programs and files at the same paths, and
nothing that runs inside changes anything outside. Nothing is installed into an image, so there is none.
No network. All of it is gone when the command inside has ended, when its time is over, or when the owner is killed.

Reading order: `kernel` (Debian's, kept in the cache), `share` (the root directory as the guest sees it), `machine`
(QEMU, and what comes out of it), `init.sh` (the guest's first process). `python -m tools.guest --help` is the command.
"""

from tools.guest.machine import Guest, GuestError

__all__ = ["Guest", "GuestError"]
