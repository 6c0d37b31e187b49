"""Removal marks: in an adjustment, a key with a leading `-` asks to remove what the rest of the key names.

One job: make and read the mark. It stands before annotation keys, names of variables, destinations of mounts, paths of
devices, types of namespaces, names of sysctls and host names of network devices, and nowhere else: rlimits, CDI
devices and cgroup v2 keys cannot be removed, and their keys are taken literally. Next: `nri.api.builders.adjustment`.
"""

__all__ = ["is_marked", "mark", "split"]

MARK = "-"


def mark(key: str) -> str:
    """The key that removes `key`."""
    return MARK + key


def is_marked(key: str) -> bool:
    """Whether the key removes. The empty key never does."""
    return key.startswith(MARK)


def split(key: str) -> tuple[str, bool]:
    """The key without its mark, and whether it had one. Only one mark is taken off."""
    return (key[1:], True) if key.startswith(MARK) else (key, False)
