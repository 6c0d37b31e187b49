"""An emulated Linux machine with cgroup v2 only and two NUMA nodes, for tests that this machine's kernel cannot run.

QEMU without KVM: it runs wherever QEMU does, ten to twenty times slower than the machine itself. Its root is this
machine's root directory, read-only, with memory above it: the same programs at the same paths, and no change reaches
the machine. It has no network. It ends with its command, at its deadline, or with its owner. `python -m tools.guest
--help` is the command.
"""

from tools.guest.machine import Guest, GuestError

__all__ = ["Guest", "GuestError"]
