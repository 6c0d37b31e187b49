"""The types of balloons: the type that a container belongs to, and the CPUs that balloons of a type prefer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nri.placement import masks
from nri.placement.balloons.balloon import Balloon
from nri.placement.balloons.options import DEFAULT, RESERVED, BalloonType, LoadClass, Options
from nri.placement.balloons.tree import Preferences, TreeAllocator, build
from nri.placement.choices import Choices
from nri.placement.containers import Container, NoPlace, quoted
from nri.placement.expressions import expand, matches
from nri.placement.machine import Machine, Priority
from nri.placement.policy import Devices

#: Names of sets of CPUs that types prefer or avoid as if they were devices.
_RESERVED_CPUS, _ISOLATED_CPUS, _EFFICIENT, _PERFORMANCE = (
    "reserved CPUs",
    "isolated CPUs",
    "efficient cores",
    "performance cores",
)


class BalloonTypes:
    """All types, in the order in which they are tried. Raises ValueError if the machine lacks configured CPUs.

    Attributes:
        allowed: the mask of all CPUs for balloons.
        reserved: the mask of CPUs that the configuration lists for the system.
        tree: the tree from which balloons take CPUs.
        unmet: the reason why a running container is not in its annotation's type, by container id.
    """

    def __init__(self, machine: Machine, options: Options, choices: Choices, devices: Devices) -> None:
        self._machine, self._options, self._choices, self._devices = machine, options, choices, devices
        self.allowed = options.availableResources.available(machine.present, machine.online)
        self.reserved = 0
        self.tree = build(machine, choices.packages_have_their_own_cpus)
        self.all = self._with_builtin_types()
        self.by_name = {kind.name: kind for kind in self.all}
        self._load_by_name = {load.name: load for load in options.loadClasses}
        self._keep_apart()
        self.unmet: dict[str, str] = {}

    # -- the list of types --------------------------------------------------------------------------------------------

    def _with_builtin_types(self) -> list[BalloonType]:
        """The configured types, with the reserved type first and the default type last if they are not configured."""
        types = [replace(kind) for kind in self._options.balloonTypes]
        configured = {kind.name: kind for kind in types}
        reserved = configured.get(RESERVED)
        if reserved is None:
            reserved = BalloonType(RESERVED, allocatorPriority="low")
            types.insert(0, reserved)
        if DEFAULT not in configured:
            types.append(BalloonType(DEFAULT, minBalloons=1, maxBalloons=1, allocatorPriority="low"))
        self._reserve(reserved)
        reserved.minBalloons = reserved.maxBalloons = 1
        reserved.namespaces = [*reserved.namespaces, "kube-system", *self._options.reservedPoolNamespaces]
        return types

    def _reserve(self, reserved: BalloonType) -> None:
        amounts = self._options.reservedResources
        if amounts.cpu is None:
            return
        cpus = amounts.set_of(self.allowed)
        if cpus is not None:
            if missing := cpus & ~self.allowed:
                raise amounts.refused(f"{masks.text(missing)} are not among the available CPUs", "remove them")
            self.reserved = cpus
            reserved.minCPUs = reserved.minCPUs or min(cpus.bit_count(), reserved.maxCPUs)
            reserved.allocatorPriority = "normal"
            reserved.preferCloseToDevices = [_RESERVED_CPUS, *reserved.preferCloseToDevices]
            return
        count = amounts.count()
        if reserved.minCPUs not in (0, count) or 0 < reserved.maxCPUs < count:
            conflict = (
                f"{count} CPUs conflict with {reserved.minCPUs} to {reserved.maxCPUs} CPUs of the type {RESERVED!r}"
            )
            raise amounts.refused(conflict, "write the same number")
        reserved.minCPUs = count

    def _keep_apart(self) -> None:
        """Let each type avoid the devices that other types are close to."""
        types_by_device: dict[str, set[str]] = {_ISOLATED_CPUS: set()} if self._machine.isolated else {}
        for kind in self.all:
            close = [*kind.preferCloseToDevices]
            close += [_ISOLATED_CPUS] if kind.preferIsolCpus else []
            close += {"performance": [_PERFORMANCE], "efficient": [_EFFICIENT]}.get(kind.preferCoreType, [])
            kind.preferCloseToDevices = close
            for device in close:
                if not device.startswith("podresourceapi:"):
                    types_by_device.setdefault(device, set()).add(kind.name)
        for kind in self.all:
            kind.far_devices = [device for device, names in types_by_device.items() if kind.name not in names]
            kind.far_devices += [load_device(self._load_by_name[load]) for load in kind.loads]

    # -- the type of a container --------------------------------------------------------------------------------------

    def is_left_alone(self, container: Container) -> bool:
        """Whether its annotation or the configuration keeps a container out of all balloons."""
        preserve = self._options.preserve
        return container.preserves("cpu") or (
            preserve is not None and any(rule.holds(container, container.pod) for rule in preserve.matchExpressions)
        )

    def type_of(self, container: Container) -> tuple[BalloonType, str]:
        """The type of a container, and the reason for it.

        Raises NoPlace if its annotation names a missing type, unless the container is running: then it belongs to the
        reserved or default type, and `unmet` has the reason.
        """
        annotation = container.scoped_annotation("balloon.balloons")
        if annotation is not None and annotation[1] in self.by_name:
            return self.by_name[annotation[1]], "named by its annotation"
        if annotation is not None:
            types = ", ".join(self.by_name)
            missing = f"unknown type of balloons {quoted(annotation[1])}; types are {types}"
            if not container.runs:
                raise NoPlace(str(container), missing)
            self.unmet[container.id] = missing
            is_reserved = matches(container.pod.namespace, self.by_name[RESERVED].namespaces)
            return self.by_name[RESERVED if is_reserved else DEFAULT], missing
        for kind in self.all:
            if any(rule.holds(container, container.pod) for rule in kind.matchExpressions):
                return kind, "first type with a matching matchExpression"
            if matches(container.pod.namespace, kind.namespaces):
                return kind, f"first type whose namespaces contain {container.pod.namespace}"
        return self.by_name[DEFAULT], "no other type matches"

    # -- CPUs of a type -----------------------------------------------------------------------------------------------

    def allowed_for(self, kind: BalloonType) -> int:
        """The mask of CPUs that a balloon of a type, or its components, may take when they are free."""
        if self._choices.reserved_cpus_stay_reserved and (kind.name != RESERVED or kind.components):
            return self.allowed & ~self.reserved
        return self.allowed

    def empty_balloon(self, kind: BalloonType, instance: int) -> Balloon:
        """A new balloon without CPUs; a composite has no components yet."""
        if kind.components:
            return Balloon(kind, instance)
        loaded = frozenset(load_device(load) for load in self.loads_of(kind))
        return Balloon(kind, instance, TreeAllocator(self.tree, self._preferences(kind)), loaded=loaded)

    def loads_of(self, kind: BalloonType) -> list[LoadClass]:
        """The loads that a type puts on its CPUs."""
        return [self._load_by_name[name] for name in kind.loads]

    def spread_of(self, load: LoadClass) -> Callable[[int], int]:
        """A function from loaded CPUs to all CPUs of their cores or L2 caches."""
        places = [node.cpus for node in self.tree.walk() if node.level == load.level]
        return lambda cpus: masks.union(place for place in places if place & cpus)

    def _preferences(self, kind: BalloonType) -> Preferences:
        options = self._options
        balancing, spread = kind.allocatorTopologyBalancing, kind.preferSpreadOnPhysicalCores
        preferences = Preferences(
            options.allocatorTopologyBalancing if balancing is None else balancing,
            options.preferSpreadOnPhysicalCores if spread is None else spread,
            [name for name in kind.preferCloseToDevices if not name.startswith("podresourceapi:")],
            list(kind.far_devices),
        )
        preferences.devices = {
            _RESERVED_CPUS: [self.reserved],
            _ISOLATED_CPUS: [self._machine.isolated],
            _EFFICIENT: [self._machine.priorities[Priority.LOW]],
            _PERFORMANCE: [self._machine.priorities[Priority.HIGH]],
        }
        for name in (*preferences.close, *preferences.avoided):
            if name not in preferences.devices and name.startswith("/"):
                preferences.devices[name] = self._devices.cpus_near(name)
        loads = self.loads_of(kind)
        if any(load.overloadsLevelInBalloon for load in loads):  # then all loads count, as in nri-plugins
            preferences.loads = {load_device(load): self.spread_of(load) for load in loads}
        return preferences


def load_device(load: LoadClass) -> str:
    """The device name of a load's CPUs, which other types avoid."""
    return f"loaded-{load.level}"


def group_of(kind: BalloonType, container: Container) -> tuple[str, bool]:
    """The group of a container, and whether all its keys have a value, which is false if `groupBy` is invalid."""
    try:
        return expand(kind.groupBy, container, container.pod)
    except ValueError:
        return "", False
