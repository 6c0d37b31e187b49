"""The states whose zones are recorded: both policies, with inflation, limits, reserved and isolated CPUs."""

from typing import Any

_GIB = 1 << 30
_PINNED = {"pinCPU": True, "pinMemory": True}


def _pod(name: str, *millicpu: int, qos: str = "Burstable", namespace: str = "default", limit_m: int = 0,
         mem: int = 100_000_000, **annotations: str) -> dict[str, Any]:  # fmt: skip
    """A pod with one container for each request."""
    guaranteed = qos == "Guaranteed"
    memory = {} if qos == "BestEffort" else {"mem_request": mem, "mem_limit": mem if guaranteed else 5 * mem}
    containers = [
        {"name": f"{name}c{place}", "cpu_request_m": cpu_m, "cpu_limit_m": cpu_m if guaranteed else limit_m, **memory}
        for place, cpu_m in enumerate(millicpu)
    ]
    step = {"op": "create", "pod": name, "namespace": namespace, "qos": qos, "containers": containers}
    return {**step, "annotations": {key.replace("_", "-"): value for key, value in annotations.items()}}


def _gone(name: str) -> dict[str, Any]:
    return {"op": "delete", "pods": [name]}


def _case(name: str, policy: str, topology: str, config: dict[str, Any], *steps: dict[str, Any]) -> dict[str, Any]:
    for entry in config.get("balloonTypes", ()):
        entry.setdefault("allocatorPriority", "none")
    capacity = (8 if topology.startswith("n4") else 9) * _GIB
    case = {"id": name, "policy": policy, "topology": topology, "config": {**_PINNED, **config}}
    return {**case, "node_memory_capacity_bytes": capacity, "steps": list(steps)}


def _balloons(name: str, topology: str, config: dict[str, Any], *steps: dict[str, Any]) -> dict[str, Any]:
    return _case(f"balloons-{name}", "balloons", topology, config, *steps)


def _pools(name: str, topology: str, config: dict[str, Any], *steps: dict[str, Any]) -> dict[str, Any]:
    return _case(f"pools-{name}", "topology-aware", topology, config, *steps)


_PRESERVE = {"memory.preserve.resource-policy.nri.io/container.kc0": "true"}

CASES = [
    _balloons(
        "grow-to-their-limit",
        "n6-hbm-cxl",
        {
            "reservedResources": {"cpu": "cpuset:3"},
            "allocatorTopologyBalancing": True,
            "showContainersInNrt": True,
            "balloonTypes": [
                {
                    "name": "half",
                    "namespaces": ["*"],
                    "minCPUs": 1,
                    "maxCPUs": 4,
                    "minBalloons": 2,
                    "maxBalloons": 2,
                    "shareIdleCPUsInSame": "package",
                }
            ],
        },
        _pod("a", 750),
        _pod("b", 200, 200, limit_m=1500),
        _pod("c", 1900),
        _pod("system", 100, namespace="kube-system"),
        _gone("a"),
    ),
    _balloons(
        "without-limit",
        "n4c16",
        {"reservedResources": {"cpu": "1"}, "balloonTypes": [{"name": "free", "namespaces": ["default"]}]},
        _pod("a", 2500),
        _pod("b", 0, qos="BestEffort"),
        _pod("c", 3000, qos="Guaranteed"),
        _gone("a"),
    ),
    _balloons(
        "limit-above-what-is-free",
        "n4c16",
        {
            "reservedResources": {"cpu": "2"},
            "availableResources": {"cpu": "cpuset:0-7"},
            "balloonTypes": [
                {"name": "wide", "namespaces": ["wide"], "minCPUs": 2, "maxCPUs": 12, "minBalloons": 1},
                {"name": "new", "namespaces": ["default"], "preferNewBalloons": True, "maxCPUs": 3},
            ],
        },
        _pod("a", 1500, 1500),
        _pod("w", 2800, namespace="wide"),
    ),
    _balloons(
        "reserved-set",
        "n4c16",
        {
            "reservedResources": {"cpu": "cpuset:0,1"},
            "balloonTypes": [
                {"name": "reserved", "minCPUs": 2, "maxCPUs": 4, "showContainersInNrt": True},
                {"name": "all", "namespaces": ["default"]},
            ],
        },
        _pod("system", 2300, namespace="kube-system"),
        _pod("a", 1200),
    ),
    _balloons(
        "shared-and-isolated",
        "n4c16-iso4",
        {
            "reservedResources": {"cpu": "1"},
            "balloonTypes": [
                {"name": "quiet", "namespaces": ["quiet"], "preferIsolCpus": True, "maxCPUs": 2},
                {"name": "noisy", "namespaces": ["default"], "shareIdleCPUsInSame": "system"},
            ],
        },
        _pod("q", 1500, namespace="quiet"),
        _pod("n", 700),
    ),
    _balloons(
        "composites",
        "n4c16",
        {
            "reservedResources": {"cpu": "1"},
            "balloonTypes": [
                {"name": "left"},
                {"name": "right", "maxCPUs": 2},
                {"name": "pair", "components": [{"balloonType": "left"}, {"balloonType": "right"}]},
                {
                    "name": "nest",
                    "namespaces": ["default"],
                    "components": [{"balloonType": "pair"}, {"balloonType": "left"}],
                },
            ],
        },
        _pod("a", 3500),
    ),
    _balloons(
        "containers-by-type",
        "n4c16",
        {
            "reservedResources": {"cpu": "1"},
            "showContainersInNrt": True,
            "balloonTypes": [
                {"name": "shown", "namespaces": ["default"], "pinMemory": False},
                {"name": "hidden", "namespaces": ["hidden"], "showContainersInNrt": False},
                {"name": "kept", "namespaces": ["kept"]},
            ],
        },
        _pod("s", 500, 1500, limit_m=9000),
        _pod("h", 1000, namespace="hidden"),
        _pod("k", 1000, namespace="kept") | {"annotations": _PRESERVE},
    ),
    _balloons(
        "without-pinning",
        "n4c16",
        {
            "pinCPU": False,
            "pinMemory": False,
            "reservedResources": {"cpu": "1"},
            "balloonTypes": [{"name": "loose", "namespaces": ["default"], "showContainersInNrt": True}],
        },
        _pod("a", 500, limit_m=2000),
        _pod("b", 500),
    ),
    _pools(
        "shared-and-exclusive",
        "n4c16",
        {"reservedResources": {"cpu": "750m"}},
        _pod("a", 2000, qos="Guaranteed"),
        _pod("b", 700),
        _pod("c", 0, qos="BestEffort"),
        _pod("system", 300, namespace="kube-system"),
        _gone("a"),
    ),
    _pools(
        "reserved-set",
        "n4c16",
        {"reservedResources": {"cpu": "cpuset:0,5"}, "availableResources": {"cpu": "cpuset:0-11"}},
        _pod("a", 3000, qos="Guaranteed"),
        _pod("system", 1500, namespace="kube-system"),
    ),
    _pools(
        "isolated",
        "n4c16-iso4",
        {"reservedResources": {"cpu": "1"}, "preferIsolatedCPUs": True},
        _pod("a", 1000, qos="Guaranteed"),
        _pod("b", 1000, qos="Guaranteed"),
        _pod("c", 1000, qos="Guaranteed"),
        _pod("d", 1000, qos="Guaranteed"),
    ),
    _pools(
        "kinds-of-memory",
        "n6-hbm-cxl",
        {"reservedResources": {"cpu": "1"}},
        _pod("a", 1000, qos="Guaranteed", mem=3 * _GIB),
        _pod("b", 1000, qos="Guaranteed", mem=_GIB),
    ),
    _pools("caches", "n4c128-l3", {"reservedResources": {"cpu": "2"}}, _pod("a", 6000, qos="Guaranteed")),
]
