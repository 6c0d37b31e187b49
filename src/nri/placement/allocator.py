"""The CPU allocator: pick a number of CPUs from a set, as close together as possible and of the preferred priority.

It takes, in this order and as far as they fit and are idle: packages, clusters (on processors with two kinds of cores),
caches, cores, and single threads. A package, cluster, cache or core is idle if all its CPUs are in the set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key, partial

from nri.placement import masks
from nri.placement.machine import Group, Machine, Priority
from nri.text import count as count_of


class _Job:
    """An allocation in progress: the CPUs to take from, the number of missing CPUs, and the CPUs taken so far."""

    __slots__ = ("count", "free", "prefer", "taken")

    def __init__(self, free: int, count: int, prefer: Priority) -> None:
        self.free, self.count, self.prefer = free, count, prefer
        self.taken = 0

    def take(self, cpus: int) -> None:
        self.taken |= cpus
        self.free &= ~cpus
        self.count -= cpus.bit_count()

    def take_whole(self, sets: Iterable[int]) -> None:
        """Take each set, in order, that is not larger than the number of missing CPUs."""
        for cpus in sets:
            if self.count >= cpus.bit_count():
                self.take(cpus)
                if self.count == 0:
                    return


class CpuAllocator:
    """Picks CPUs of one machine.

    Attributes:
        near_idle: whether, of two partly used caches, the cache next to the idle cache is taken first. nri-plugins
            compares the number of a package with a number of CPUs, so the right cache is chosen by chance only.
    """

    def __init__(self, machine: Machine, near_idle: bool = True) -> None:
        self._machine = machine
        self.near_idle = near_idle

    def allocate(self, free: int, count: int, prefer: Priority) -> int:
        """The mask of `count` CPUs of the set `free`. Raises ValueError if the set has fewer."""
        if free.bit_count() < count:
            request = count_of(count, "CPU")
            reason = f"{masks.text(free)} has fewer than {request}" if free else f"no free CPUs, {request} requested"
            raise ValueError(reason)
        if free.bit_count() == count:
            return free
        job = _Job(free, count, prefer)
        self._take_packages(job)
        if job.count and self._machine.hybrid:
            self._take_clusters(job)
        if job.count > 1:
            self._take_caches(job)
        self._take_cores_and_threads(job)
        return job.taken

    # -- how well CPUs fit a preference ---------------------------------------------------------------------------

    def _counts(self, cpus: int, prefer: Priority) -> tuple[int, ...]:
        """A sort key for sets of CPUs: most CPUs up to the preferred priority first, then fewest CPUs above it."""
        if prefer is Priority.NONE:
            return ()
        counts = [(cpus & cpus_of_priority).bit_count() for cpus_of_priority in self._machine.priorities]
        return (*(-count for count in counts[prefer:]), *counts[:prefer])

    def _compare_fit(self, one: int, other: int, prefer: Priority, count: int) -> int:
        """Below 0 if the set `one` fits `count` CPUs more tightly, above 0 if `other` does."""
        if prefer is Priority.NONE:
            return 0
        preferred = self._machine.priorities[prefer]
        one_size, other_size = (one & preferred).bit_count(), (other & preferred).bit_count()
        if prefer is Priority.HIGH and one_size == other_size == 0:
            preferred = self._machine.priorities[Priority.NORMAL]
            one_size, other_size = (one & preferred).bit_count(), (other & preferred).bit_count()
        if one_size >= count and other_size >= count:
            return one_size - other_size
        if prefer is not Priority.NORMAL and (one_size >= count or other_size >= count):
            return other_size - one_size
        one_key, other_key = self._counts(one, prefer), self._counts(other, prefer)
        return (one_key > other_key) - (one_key < other_key)

    # -- the stages -----------------------------------------------------------------------------------------------

    def _take_packages(self, job: _Job) -> None:
        preferred = self._machine.online if job.prefer is Priority.NONE else self._machine.priorities[job.prefer]
        idle = [
            (self._counts(cpus, job.prefer), package, cpus & preferred)
            for package, cpus in self._machine.packages.items()
            if cpus & preferred & job.free == cpus & preferred
        ]
        job.take_whole(cpus for _, _, cpus in sorted(idle) if cpus)

    def _take_clusters(self, job: _Job) -> None:
        idle = [
            group
            for group in self._machine.clusters
            if self._of_kind(group, job.prefer) and group.cpus & job.free == group.cpus
        ]
        if len(self._machine.clusters) < 2 or not idle:
            return
        by_die = _sums_by_key(idle, lambda group: (group.package, group.die), job.free)
        by_package = _sums_by_key(idle, lambda group: group.package, job.free)

        def key(group: Group) -> tuple[int, ...]:
            sizes = (group.cpus.bit_count(), by_die[group.package, group.die], by_package[group.package])
            for rank, size in enumerate(sizes):
                if size >= job.count:  # large enough alone: the smallest first
                    return rank, size, group.package, group.die, group.number
            return (len(sizes),)

        idle.sort(key=key)
        if idle[0].cpus.bit_count() > job.count:
            return
        for group in idle:
            if job.count == 0 or job.count < group.cpus.bit_count():
                return
            job.take(group.cpus)

    def _of_kind(self, group: Group, prefer: Priority) -> bool:
        """Whether a group's cores suit a preference: efficient cores are for low priority only."""
        return not self._machine.hybrid or group.efficient == (prefer is Priority.LOW)

    def _take_caches(self, job: _Job) -> None:
        groups = [group for group in self._machine.cache_groups if self._of_kind(group, job.prefer)]
        if len(self._machine.cache_groups) < 2:
            return
        part = job.count % self._machine.cache_groups[0].cpus.bit_count()
        full = job.count - part
        idle = [group for group in groups if group.cpus & job.free == group.cpus]
        used = [group for group in groups if group not in idle and group.cpus & job.free]
        idle_sums, used_sums = _Sums(idle, job.free), _Sums(used, job.free)
        idle.sort(key=cmp_to_key(partial(_idle_order, idle_sums, used_sums, full, part)))
        order = self._used_order(job.free, idle, idle_sums, used_sums, full, full + part)
        used.sort(key=cmp_to_key(order))
        if not idle and not used:
            return
        package = (idle or used)[0].package
        if idle_sums.package(package) + used_sums.package(package) < job.count:
            return
        trial = _Job(job.free, job.count, job.prefer)
        for group in idle:
            if trial.count <= 0:
                break
            if trial.count >= group.cpus.bit_count():
                trial.take(group.cpus)
            else:
                trial.take(self._cpus_of_one_cache(group.cpus, trial.count, job.prefer))
        if trial.count > 0 and not self._take_used(trial, used, package):
            return
        job.take(trial.taken)

    def _take_used(self, trial: _Job, used: list[Group], package: int) -> bool:
        """Take the missing CPUs from partly used caches: from a cache with exactly this number, else from few caches.

        Returns whether these caches had enough CPUs.
        """
        free = trial.free
        parts: list[int] = []
        for group in used:
            if group.package != package:
                break
            parts.append(group.cpus & free)
        exact = next((cpus for cpus in parts if cpus.bit_count() == trial.count), 0)
        if exact:
            trial.take(exact)
            return True
        needed, total = 0, 0
        while needed < len(parts) and total < trial.count:
            total += parts[needed].bit_count()
            needed += 1
        if total < trial.count:
            return False
        for cpus in parts[:needed]:
            if trial.count < cpus.bit_count():
                break
            trial.take(cpus)
        if trial.count > 0:
            trial.take(self._cpus_of_one_cache(parts[needed - 1], trial.count, trial.prefer))
        return trial.count == 0

    def _used_order(
        self, free: int, idle: Sequence[Group], idle_sums: _Sums, used_sums: _Sums, full: int, total: int
    ) -> Callable[[Group, Group], int]:
        neighbour: tuple[int, int] | None = None
        if full > 0 and idle:
            neighbour = (idle[0].package, idle[0].die)
            if not self.near_idle:
                neighbour = (idle_sums.package(idle[0].package), idle_sums.die(idle[0].package, idle[0].die))

        def order(one: Group, other: Group) -> int:
            larger = (other.cpus & free).bit_count() - (one.cpus & free).bit_count()
            if neighbour is not None:
                for one_is_near, other_is_near in (
                    (one.package == neighbour[0], other.package == neighbour[0]),
                    (one[:2] == neighbour, other[:2] == neighbour),
                ):
                    if one_is_near != other_is_near:
                        return -1 if one_is_near else 1
                return larger or one.number - other.number if one[:2] == neighbour else 0
            one_sum, other_sum = used_sums.die(one.package, one.die), used_sums.die(other.package, other.die)
            if (one_sum >= total) != (other_sum >= total):
                return -1 if one_sum >= total else 1
            if one_sum >= total:
                return one_sum - other_sum or larger or (1 if one[:3] > other[:3] else -1)
            return 0

        return order

    def _cpus_of_one_cache(self, cpus: int, count: int, prefer: Priority) -> int:
        """The mask of `count` CPUs of one cache."""
        job = _Job(cpus, count, prefer)
        self._take_cores_and_threads(job)
        return job.taken

    def _take_cores_and_threads(self, job: _Job) -> None:
        if job.count:
            cores = []
            remaining = job.free
            while remaining:
                number = masks.first(remaining)
                core = self._machine.cores.get(number, 1 << number)
                if core & job.free == core:
                    cores.append((self._counts(core, job.prefer), number, core))
                remaining &= ~(core | 1 << number)
            job.take_whole(core for _, _, core in sorted(cores))
        if job.count:
            self._take_threads(job)

    def _take_threads(self, job: _Job) -> None:
        machine, free = self._machine, job.free
        packages = [(package, cpus) for package, cpus in machine.packages.items() if cpus & free]

        def order(one: tuple[int, int], other: tuple[int, int]) -> int:
            together = (other[1] & job.taken).bit_count() - (one[1] & job.taken).bit_count()
            return (
                together
                or self._compare_fit(one[1] & free, other[1] & free, job.prefer, job.count)
                or one[0] - other[0]
            )

        packages.sort(key=cmp_to_key(order))
        for _, cpus in packages:
            threads = sorted(
                (self._counts(1 << number, job.prefer), (machine.cores[number] & free).bit_count(), number)
                for number in masks.members(cpus & free)
            )
            for _, _, number in threads[: job.count]:
                job.take(1 << number)
            if job.count == 0:
                return


class _Sums:
    """The free CPUs of groups, summed by package and by die."""

    def __init__(self, groups: Iterable[Group], free: int) -> None:
        groups = list(groups)
        self._packages = _sums_by_key(groups, lambda group: group.package, free)
        self._free_by_die = _sums_by_key(groups, lambda group: (group.package, group.die), free)

    def package(self, package: int) -> int:
        return self._packages.get(package, 0)

    def die(self, package: int, die: int) -> int:
        return self._free_by_die.get((package, die), 0)


def _sums_by_key(groups: Iterable[Group], key: Callable[[Group], object], free: int) -> dict[object, int]:
    sums: dict[object, int] = {}
    for group in groups:
        sums[key(group)] = sums.get(key(group), 0) + (group.cpus & free).bit_count()
    return sums


def _idle_order(idle: _Sums, used: _Sums, full: int, part: int, one: Group, other: Group) -> int:
    """Compare two idle caches: first those whose die, then those whose package, has enough idle and partly used CPUs.

    Args:
        full: the number of CPUs that fill entire caches.
        part: the number of remaining CPUs.
    """
    for one_full, other_full, one_part, other_part in (
        (
            idle.die(one.package, one.die),
            idle.die(other.package, other.die),
            used.die(one.package, one.die),
            used.die(other.package, other.die),
        ),
        (
            idle.package(one.package),
            idle.package(other.package),
            used.package(one.package),
            used.package(other.package),
        ),
    ):
        if one_full >= full > other_full and one_part >= part:
            return -1
        if other_full >= full > one_full and other_part >= part:
            return 1
        if one_full >= full and other_full >= full:
            if (one_part >= part) != (other_part >= part):
                return -1 if one_part >= part else 1
            if one_part >= part:
                return one_full - other_full or one_part - other_part or (1 if one[:3] > other[:3] else -1)
    return one.number - other.number
