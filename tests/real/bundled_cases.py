"""What pods ask of bundled plugins, and where the effect is read back: inside the container, its process, its cgroup.

Rules: an annotation stands without its scope, which is always one container; where the read-back is one of
fields.py, it is taken from there; a key that ends with a slash has the container's name behind that. Next: `bundled`,
which measures; `bundled_matrix` has what came of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nri.api import cpuset
from nri.conformance import fields
from nri.conformance.fields import View
from tests.real import adjustments
from tests.support.waiting import wait_for

EFFECTIVE, IGNORED, GONE = "effective", "ignored", "gone"
#: Stage of a hook -> the container states that OCI runtimes pass to it; runc passes the previous state to `poststart`.
STATES = {
    "createRuntime": {"creating", "created"},
    "createContainer": {"creating", "created"},
    "poststart": {"created", "running"},
    "poststop": {"stopped"},
}
#: What only containers with this annotation get.
HOOKED = {"hooks.example.org": "yes"}


def state_file(folder: Path, stage: str) -> Path:
    """Where the hook of a stage keeps the state that it was given."""
    return folder / f"state-{stage}"


@dataclass(frozen=True, slots=True)
class Case:
    """What a plugin is asked for, by annotation without its scope, and where it is seen.

    Without `annotations` the plugin does it to every container, or as its files say. In them FOLDER is the test's, and
    SPARE and MOVED are network devices of the host. One that can be refused is `alone` in a container; one `of_pod` has
    no scope. With `refusal` the effect is that the container is refused, with this text.
    """

    plugin: str
    text: str
    annotations: dict[str, str]
    read: Callable[[View], str]
    effect: str
    alone: bool = False
    of_pod: bool = False
    refusal: str = ""


def _inside(script: str) -> Callable[[View], str]:
    return lambda view: view.exec("/bin/sh", "-c", script).strip()


def _annotation(view: View) -> str:
    return str((view.spec("annotations") or {}).get("added-by")).rstrip("-0123456789")


def _hooks(view: View) -> str:
    """The stages whose hooks received this container in an allowed state; the last one runs at its end."""
    states = {stage: json.loads(path.read_text()) for stage in STATES if (path := state_file(view.dir, stage)).exists()}
    good = [
        stage for stage, message in states.items() if message["id"] == view.id and message["status"] in STATES[stage]
    ]
    return " ".join(good)


def _moved(view: View) -> str:
    text = view.exec("/bin/sh", "-c", "ip addr show uplink0 2>/dev/null || true")
    parts = {"inet 192.0.2.7/24": "192.0.2.7/24", "mtu 1400": "mtu 1400", ",UP": "up"}
    return " ".join(words for part, words in parts.items() if part in text)


def _numa(view: View) -> str:
    lines = Path(f"/proc/{view.pid}/numa_maps").read_text().splitlines()
    return " ".join(sorted({line.split()[1] for line in lines}))


def _injected(view: View) -> str:
    """The same once mpolset, and before it the OCI runtime, have become the container's own command."""
    command = Path(f"/proc/{view.pid}/cmdline")
    wait_for(lambda: b"sleep" in command.read_bytes().split(b"\0")[0], lambda: f"runs {command.read_bytes()!r}")
    return _numa(view)


def _class(view: View) -> str:
    """The class of resctrl that the container is in."""
    tasks = Path("/sys/fs/resctrl/gold/tasks")
    return "gold" if tasks.exists() and str(view.pid) in tasks.read_text().split() else "none"


def _monitored(view: View) -> str:
    groups = Path("/sys/fs/resctrl").glob("**/mon_groups/*/tasks")
    return str(any(str(view.pid) in tasks.read_text().split() for tasks in groups))


def _unified(file: str) -> Callable[[View], str]:
    """A file of the container's cgroup v2; none where the container has no such cgroup or file."""

    def read(view: View) -> str:
        lines = Path(f"/proc/{view.pid}/cgroup").read_text().splitlines()
        path = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
        results = [Path(f"{root}{path}/{file}") for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")]
        return next((entry.read_text().strip() for entry in results if entry.exists()), "none")

    return read


def _tiered(view: View) -> str:
    """Whether a memtierd runs that was given the container's cgroup."""
    configs = (view.dir / "memtierd").glob("**/memtierd.config.yaml")
    pids = [config.with_name("memtierd.pid").read_text().strip() for config in configs if view.id in config.read_text()]
    return "runs" if any(Path("/proc", pid).exists() for pid in pids) else "none"


#: Reads and writes a clone of /dev/null, with its number and mode.
_USE = "echo x > /dev/added && wc -c < /dev/added"
WRITABLE = (
    "cd /sys/fs/cgroup; [ -d pids ] && cd pids; mkdir x 2>/dev/null && rmdir x && echo writable || echo read-only"
)


def _device(view: View) -> str:
    effect = fields.CASES["device"].read(view)
    return effect if effect == "none" else f"{effect} {_inside(_USE)(view)}"


def _like(name: str) -> tuple[Callable[[View], str], str]:
    """Where an adjustment of that name is read back, and what it is then."""
    case = adjustments.NEWER.get(name) or fields.CASES[name]
    return case.read, case.effect


def _status_cpus(view: View) -> frozenset[int]:
    lines = Path(f"/proc/{view.pid}/status").read_text().splitlines()
    return cpuset.parse(next(line for line in lines if line.startswith("Cpus_allowed_list")).partition(":")[2].strip())


def _how_many(view: View) -> str:
    return f"{len(_status_cpus(view))} CPUs"


def _which(view: View) -> str:
    return f"CPUs {cpuset.to_text(_status_cpus(view))}"


INJECTOR, DOMAIN = "device-injector", "noderesource.dev"
CASES: dict[str, Case] = {
    "device": Case(
        INJECTOR,
        f"`devices.{DOMAIN}`",
        {f"devices.{DOMAIN}": "[{path: /dev/added, type: c, major: 1, minor: 3, file_mode: 0640}]"},
        _device,
        "1:3 crw-r----- 0",
    ),
    "cdi": Case(INJECTOR, f"`cdi-devices.{DOMAIN}`", {f"cdi-devices.{DOMAIN}": "[nri.test/thing=one]"}, *_like("cdi")),
    "mount": Case(
        INJECTOR,
        f"`mounts.{DOMAIN}`",
        {f"mounts.{DOMAIN}": "[{source: 'FOLDER', destination: /added, type: bind, options: [rbind, ro]}]"},
        *_like("mount"),
    ),
    "sysctl": Case(INJECTOR, f"`sysctl.{DOMAIN}`", {f"sysctl.{DOMAIN}": "kernel.shm_rmid_forced: 1"}, *_like("sysctl")),
    "io-priority": Case(
        INJECTOR,
        f"`io-priority.{DOMAIN}`",
        {f"io-priority.{DOMAIN}": "{class: IOPRIO_CLASS_BE, priority: 6}"},
        *_like("io-priority"),
    ),
    "scheduler": Case(
        INJECTOR,
        f"`scheduling-policy.{DOMAIN}`",
        {f"scheduling-policy.{DOMAIN}": "{policy: SCHED_BATCH, nice: 5}"},
        *_like("scheduler"),
    ),
    "net-device": Case(
        INJECTOR,
        f"`network-devices.{DOMAIN}`",
        {f"network-devices.{DOMAIN}": "[{hostIf: 'SPARE', name: eth9}]"},
        _inside("[ -d /sys/class/net/eth9 ] && echo there || echo none"),
        "there",
        alone=True,
    ),
    "memory-policy": Case(
        INJECTOR,
        f"`memory-policy.{DOMAIN}`",
        {f"memory-policy.{DOMAIN}": '{mode: MPOL_BIND, nodes: "0"}'},
        _numa,
        "bind:0",
        alone=True,
    ),
    "ulimit": Case(
        "ulimit-adjuster",
        f"`ulimits.{DOMAIN}`",
        {f"ulimits.{DOMAIN}": "[{type: nofile, soft: 900, hard: 1000}]"},
        *_like("rlimit"),
    ),
    "closid": Case("rdt", f"`closid.rdt.{DOMAIN}`", {f"closid.rdt.{DOMAIN}": "gold"}, _class, "gold", alone=True),
    "schemata": Case(
        "rdt",
        f"`closid` and `schemata.rdt.{DOMAIN}`",
        {f"closid.rdt.{DOMAIN}": "gold", f"schemata.rdt.{DOMAIN}": "L3:0=f"},
        _class,
        "gold",
        alone=True,
    ),
    "monitoring": Case(
        "rdt",
        f"`enablemonitoring.rdt.{DOMAIN}`",
        {f"enablemonitoring.rdt.{DOMAIN}": "true"},
        _monitored,
        "True",
        alone=True,
    ),
    "cgroups": Case(
        "writable-cgroups",
        f"`writable-cgroups.{DOMAIN}`",
        {f"writable-cgroups.{DOMAIN}": "true"},
        _inside(WRITABLE),
        "writable",
    ),
    "net-moved": Case(
        "network-device-injector",
        f"`netdevice.{DOMAIN}`",
        {f"netdevice.{DOMAIN}": "[{name: MOVED, new_name: uplink0, address: 192.0.2.7, prefix: 24, mtu: 1400}]"},
        _moved,
        "192.0.2.7/24 mtu 1400 up",
        of_pod=True,
    ),
    "hooks": Case("hook-injector", "hooks of four stages", {}, _hooks, "createRuntime createContainer poststart"),
    "env": Case("logger", "`-add-env`", {}, _inside('echo "${ADDED_BY%%-[0-9]*}"'), "logger-pid"),
    "annotation": Case("logger", "`-add-annotation`", {}, _annotation, "logger-pid"),
    "memory-high": Case(
        "memory-qos",
        "`memory.high.memory-qos.nri.io`",
        {"memory.high.memory-qos.nri.io/": "104857600"},
        _unified("memory.high"),
        "104857600",
        alone=True,
    ),
    "mpolset": Case(
        "memory-policy",
        "`policy.memory-policy.nri.io`, with `injectMpolset`",
        {"policy.memory-policy.nri.io": '{mode: MPOL_BIND, nodes: "0"}'},
        _injected,
        "bind:0",
        alone=True,
    ),
    "memtierd": Case(
        "memtierd",
        "`class.memtierd.nri.io`: a process of memtierd",
        {"class.memtierd.nri.io/": "idle"},
        _tiered,
        "runs",
        alone=True,
    ),
    "swap-max": Case(
        "memtierd",
        "`memory.swap.max.memtierd.nri.io`",
        {"memory.swap.max.memtierd.nri.io/": "0"},
        _unified("memory.swap.max"),
        "0",
        alone=True,
    ),
    "sgx": Case(
        "sgx-epc",
        "`epc-limit.nri.io`",
        {"epc-limit.nri.io": "16777216"},
        _unified("misc.max"),
        "sgx_epc 16777216",
        alone=True,
    ),
    "counted": Case("resctrl-mon", "groups of pods", {}, _monitored, "True"),
    "required": Case(
        "default-validator",
        f"`required-plugins.{DOMAIN}`",
        {f"required-plugins.{DOMAIN}": "[nonesuch]"},
        lambda _: "runs",
        "",
        alone=True,
        refusal='required plugin "nonesuch" not present',
    ),
}
"""Case by name, in the order of the documentation."""

CPUS = sorted(os.sched_getaffinity(0))
_POLICIES = "resource-policy.nri.io"
_CALM = {f"scheduling-class.{_POLICIES}": "calm"}
_ALONE = json.dumps({"containers": {"cpu": {key: {"cpu": "1"} for key in ("requests", "limits")}}})
#: The policies, which pin all containers: one at a time, all its cases in one pod, read when all are there.
PLACING: dict[str, dict[str, Any]] = {
    "topology-aware": {"reservedResources": {"cpu": f"cpuset:{CPUS[0]}"}},
    "balloons": {
        "balloonTypes": [
            {"name": "own", "maxCPUs": 1, "preferNewBalloons": True},
            {"name": "default", "minBalloons": 0, "shareIdleCPUsInSame": "system"},
        ]
    },
}
PLACED: dict[str, Case] = {
    "cpu": Case(
        "topology-aware",
        "an exclusive CPU",
        {f"{DOMAIN}/resources": _ALONE},
        _how_many,
        "1 CPUs",
        of_pod=True,
    ),
    "reserved": Case(
        "topology-aware",
        f"`prefer-reserved-cpus.{_POLICIES}`",
        {f"prefer-reserved-cpus.{_POLICIES}": "true"},
        _which,
        f"CPUs {CPUS[0]}",
    ),
    "calm": Case(
        "topology-aware",
        f"`scheduling-class.{_POLICIES}`",
        {f"prefer-reserved-cpus.{_POLICIES}": "true", **_CALM},
        *_like("scheduler"),
    ),
    "idle": Case(
        "balloons", "idle CPUs, which another one takes while it runs", {}, _how_many, f"{len(CPUS) - 1} CPUs"
    ),
    "balloon": Case(
        "balloons", f"`balloon.balloons.{_POLICIES}`", {f"balloon.balloons.{_POLICIES}": "own"}, _how_many, "1 CPUs"
    ),
    "calm-balloon": Case("balloons", f"`scheduling-class.{_POLICIES}`", _CALM, *_like("scheduler")),
}
"""The same of policies; the container that others take CPUs from is there before them."""

#: Annotation, bad value, and the error text after the annotation's key.
BAD: tuple[tuple[str, str, str], ...] = (
    (f"devices.{DOMAIN}", "[{path: /dev/x, type: c, major: ten}]", '[0].major: "ten" is not a number'),
    ("devices.nri.io", "[{path: /dev/x, type: z, major: 1}]", "[0].type: must be one of"),
    (f"cdi-devices.{DOMAIN}", "[nothing]", "[0]: must be vendor/class=device"),
    (f"mounts.{DOMAIN}", "[{destination: /x, type: bind}]", "[0]: source is missing"),
    (f"io-priority.{DOMAIN}", "{class: BEST}", "class: must be one of"),
    (f"scheduling-policy.{DOMAIN}", "{policy: FAST}", "policy: must be one of"),
    (f"network-devices.{DOMAIN}", "[{name: eth9}]", "[0]: hostIf is missing"),
    (f"sysctl.{DOMAIN}", "[a]", "expected a mapping of keys to values"),
    (f"memory-policy.{DOMAIN}", "{mode: NEAR}", "mode: must be one of"),
    (f"ulimits.{DOMAIN}", "[{type: nofile, soft: 2, hard: 1}]", "[0]: soft limit 2 exceeds hard limit 1"),
    ("ulimits.nri.containerd.io", "[{type: files, soft: 1, hard: 1}]", "[0].type: must be"),
    (f"closid.rdt.{DOMAIN}", "a/b", '"a/b" cannot be the name of a class'),
    (f"schemata.rdt.{DOMAIN}", "L3", '[0]: "L3" is not a line of schemata'),
    (f"enablemonitoring.rdt.{DOMAIN}", "yes", '"yes" is neither true nor false'),
    (f"writable-cgroups.{DOMAIN}", "yes", '"yes" is neither true nor false'),
    ("memory.max.memory-qos.nri.io/", "1", '"memory.max" is not allowed (allowed: memory.high)'),
    ("class.memory-qos.nri.io/", "gold", 'class "gold" not found'),
    ("class.memtierd.nri.io/", "gold", 'class "gold" not found'),
    ("policy.memory-policy.nri.io", "{mode: NEAR}", "mode: must be one of"),
    ("class.memory-policy.nri.io", "gold", 'class "gold" not found'),
    ("epc-limit.nri.io", "16Mi", '"16Mi" is not a number of bytes'),
)
#: What `measure` checks in addition to the cases: whether the device of `net-moved` is back on the host after the pod.
BACK = "net-back"
NETDEVICE = f"netdevice.{DOMAIN}"
WATCHED_ANNOTATIONS = {f"writable-cgroups.{DOMAIN}": "true"}
#: What writable-cgroups logs for them on a host that does not delegate.
NOT_DELEGATED = f"annotation writable-cgroups.{DOMAIN} has no effect: no cgroup v2 is mounted with nsdelegate"
#: What plugins that change nothing print of the pod `watched` and its container `app`; ADDRESS is the pod's, NETWORK is
#: any path.
WATCHED = {
    "10-logger": ("RunPodSandbox:    name: watched", "CreateContainer:    name: app"),
    "28-template": (
        "pod started [pod default/watched]",
        "creating container [pod default/watched, container app]",
        "pod removed [pod default/watched]",
    ),
    "99-differ": ("[99] CreateContainer: container: create: env[ADDED_BY]: From: <nil> -> To: ADDED_BY=logger-pid-",),
    "27-network-logger": tuple(
        f"{event} pod default/watched: namespace=NETWORK ips=[ADDRESS]" for event in ("Started", "Stopped", "Removed")
    ),
}
