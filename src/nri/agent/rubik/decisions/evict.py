"""Evictions of offline pods: for the pressure on online ones (psi), for the node's CPU and for its memory.

One pod at a time: the biggest user of that resource, of equal ones the newer; a pod whose use is not known never. A
cool-down follows an eviction, and nothing else. Next: `nri.agent.rubik.decisions.cpi`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nri.agent.rubik.pods import Pod, offline, protected
from nri.agent.rubik.service import Ticks, share

__all__ = [
    "BY",
    "Cooldown",
    "Sample",
    "Window",
    "candidates",
    "cpu_percent",
    "memory_mb",
    "memory_percent",
    "pressed",
    "victim",
]

#: The figure by which the victim is chosen, for each resource under pressure.
BY: Final = {"cpu": "cpu", "io": "cpu", "memory": "memory"}
_FREE: Final = ("MemFree", "Buffers", "Cached", "SReclaimable")


class Sample(NamedTuple):
    """One reading of a pod's use."""

    t_ns: int
    cpu_ns: int
    memory_bytes: int


def cpu_percent(samples: Sequence[Sample], cpus: int) -> float | None:
    """Return the percent of the node that a pod used between its last two samples; None if they do not tell."""
    if len(samples) < 2:
        return None
    first, last = samples[-2:]
    spent, used = last.t_ns - first.t_ns, last.cpu_ns - first.cpu_ns
    return None if spent <= 0 or used < 0 or cpus <= 0 else 100 * used / spent / cpus


def memory_mb(samples: Sequence[Sample]) -> float | None:
    """Return the memory in use at the last sample, in MB; None without one."""
    return samples[-1].memory_bytes / 10**6 if samples else None


def candidates(pods: Iterable[Pod], *, from_apiserver: bool) -> list[Pod]:
    """Return the pods that may be evicted; `from_apiserver` as for `protected`."""
    return [pod for pod in pods if offline(pod) and not protected(pod, from_apiserver=from_apiserver)]


def victim(pods: Iterable[Pod], use: Mapping[str, float | None]) -> Pod | None:
    """Return the pod to evict of those that may be; `use` is by uid."""
    known = [(used, pod) for pod in pods if (used := use.get(pod.uid)) is not None]
    order = sorted(known, key=lambda each: (-each[0], -(each[1].started or 0.0), each[1].namespace, each[1].name))
    return order[0][1] if order else None


def pressed(resources: Iterable[str], avg10: Mapping[str, Iterable[float]], threshold: float) -> str:
    """Return the first resource for which an online pod waits more than `threshold` percent of the time, or ""."""
    over = (name for name in resources if any(each > threshold for each in avg10.get(name, ())))
    return next(over, "")


def memory_percent(meminfo: Mapping[str, int]) -> float:
    """Return the percent of the node's memory in use; pages that the kernel can drop are not. Raises ValueError."""
    total = meminfo.get("MemTotal", 0)
    if total <= 0:
        raise ValueError("the node's memory is not known: /proc/meminfo has no MemTotal")
    return 100 * max(total - sum(meminfo.get(name, 0) for name in _FREE), 0) / total


class Window:
    """The node's CPU, averaged over so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._oldest_ns = round((seconds + 1) * 10**9)
        self._samples: deque[tuple[int, Ticks]] = deque()

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, now_ns: int, ticks: Ticks) -> float | None:
        """Take a reading; return the average percent in use, None before there are two."""
        self._samples.append((now_ns, ticks))
        while now_ns - self._samples[0][0] >= self._oldest_ns:
            self._samples.popleft()
        return share(self._samples[0][1], ticks) if len(self._samples) > 1 else None


class Cooldown:
    """No decision for so many seconds after an eviction."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None

    def over(self, now: float) -> bool:
        """Whether a decision is due at a time in seconds."""
        return self._until is None or now >= self._until

    def left(self, now: float) -> float:
        """The seconds for which nothing is decided yet."""
        return 0.0 if self._until is None else max(self._until - now, 0.0)

    def begin(self, now: float) -> None:
        """Begin: something was evicted."""
        self._until = now + self._seconds
