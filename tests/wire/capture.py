"""Make the files of captured frames anew: ``python -m tests.wire.capture``.

Each session runs two of the tests' peers (tests/peers) with a tap between them; each call of interest becomes a file.
Maps hold one entry, because Go writes map entries in random order; times that callers send along differ per run.
"""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.peers.build import peer
from tests.peers.drivers import GoPlugin, GoRuntime, LineProcess, PeerError
from tests.wire.frames import FOLDER, Frame, write
from tests.wire.tap import Exchange, Tap

POD = {
    "id": "pod0",
    "name": "p0",
    "uid": "u0",
    "namespace": "default",
    "labels": {"app": "web"},
    "annotations": {"note": "x"},
    "runtime_handler": "runc",
    "linux": {"cgroup_parent": "/kubepods/pod0", "namespaces": [{"type": "network", "path": "/proc/7/ns/net"}]},
    "pid": 7,
    "ips": ["10.0.0.1"],
}
CONTAINER = {
    "id": "ctr0",
    "pod_sandbox_id": "pod0",
    "name": "c0",
    "state": "CONTAINER_CREATED",
    "labels": {"l": "1"},
    "args": ["sleep", "inf"],
    "env": ["PATH=/bin", "A=1"],
    "mounts": [{"destination": "/data", "type": "bind", "source": "/src", "options": ["rbind", "ro"]}],
    "linux": {
        "resources": {"memory": {"limit": {"value": "67108864"}}, "cpu": {"shares": {"value": "256"}, "cpus": "0"}}
    },
    "created_at": "1700000000000000000",
    "user": {"uid": 1000, "gid": 1000, "additional_gids": [5, 300]},
    "image": {"name": "busybox:latest"},
}
RESOURCES = {"cpu": {"shares": {"value": "512"}}, "unified": {"memory.high": "max"}}
ADJUST = {
    "annotations": {"k1": "v1"},
    "mounts": [{"destination": "-/m0"}],
    "env": [{"key": "-A"}, {"key": "C", "value": "3"}],
    "linux": {"devices": [{"path": "-/dev/x"}], "resources": {"cpu": {"shares": {"value": "5"}}}},
}
OLD_POD = {key: value for key, value in POD.items() if key != "ips"}
OLD_CONTAINER = {key: value for key, value in CONTAINER.items() if key not in ("created_at", "user", "image")}
UPDATE = {"container_id": "ctr1", "linux": {"resources": {"cpu": {"cpus": "1"}, "pids": {"limit": "77"}}}}
POD_EVENTS = ("RunPodSandbox", "UpdatePodSandbox", "PostUpdatePodSandbox", "StopPodSandbox", "RemovePodSandbox")
CONTAINER_EVENTS = (
    *("CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer"),
    *("UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer"),
)


@contextlib.contextmanager
def session(runtime_release: str, plugin_release: str, start: dict[str, Any], **script: Any) -> Iterator[Any]:
    """A runtime and a plugin with a tap between; gives them and the list that holds the calls afterwards."""
    calls: list[Exchange] = []
    with tempfile.TemporaryDirectory(prefix="nri-") as name, GoRuntime(runtime_release) as runtime:
        state = start.pop("state", {"pods": [OLD_POD], "containers": [OLD_CONTAINER]})
        runtime.command("set_state", **state)
        runtime.start(Path(name, "r.sock"), name="rt", version="v1", **start)
        tap = Tap(Path(name, "t.sock"), Path(name, "r.sock"), "P", "R")
        with GoPlugin(Path(name, "t.sock"), release=plugin_release, name="foo", idx="00", **script) as plugin:
            runtime.wait_plugins(1)
            yield runtime, plugin, calls
            runtime.stop()
        tap.close()
        calls += tap.exchanges()


def keep(prefix: str, what: str, calls: list[Exchange], names: dict[str, str], nth: int = 0) -> None:
    """Write the n-th call of each method in `names` as a file; its value is added to the file's name."""
    for method, variant in names.items():
        call = [call for call in calls if call.method == method][nth]
        path = FOLDER / f"{prefix}-{method}{variant}.hex"
        write(path, [f"{call.service}/{method}", what], [*call.request, *call.reply])


def newest() -> None:
    """Every call of 0.12.5, both services, with an answer that has content where there is one."""
    with session(
        *("", "", {}),
        events=[*POD_EVENTS, *CONTAINER_EVENTS, "ValidateContainerAdjustment"],
        failure_policy={"fail_request": True, "keep_connected": True},
        on={
            "Synchronize": {"update": [UPDATE]},
            "CreateContainer": {"adjust": ADJUST, "update": [UPDATE]},
            "UpdateContainer": {"update": [{**UPDATE, "container_id": "ctr0"}]},
            "StopContainer": {"update": [UPDATE]},
        },
    ) as (runtime, plugin, calls):
        runtime.command("set_callbacks", update_fail_ids=["ctr1"])
        for event in POD_EVENTS[:3] + CONTAINER_EVENTS + POD_EVENTS[3:]:
            more = {"resources": RESOURCES, "overhead": RESOURCES} if event.startswith("Update") else {}
            runtime.event(event, POD, None if event in POD_EVENTS else CONTAINER, **more)
        plugin.update([UPDATE])
    methods = ("RegisterPlugin", "Configure", "Synchronize", "UpdateContainers", "ValidateContainerAdjustment")
    what = "containerd/nri v0.12.5 on both sides"
    keep("v0.12.5", what, calls, dict.fromkeys((*methods, *POD_EVENTS, *CONTAINER_EVENTS), ""))


def answers() -> None:
    """Answers of 0.12.5 that are not the usual ones, and a request that does not fit one frame."""
    padding = ["PADDING_" + "x" * 90 + f"={i}" for i in range(100)]
    steps = {"StartContainer": {"error": "boom"}, "ValidateContainerAdjustment": {"error": "not here"}}
    with session("", "", {}, on=steps, events=[*CONTAINER_EVENTS, "ValidateContainerAdjustment"]) as (
        runtime,
        _,
        calls,
    ):
        for event, env in (("StartContainer", []), ("CreateContainer", []), ("CreateContainer", padding)):
            with contextlib.suppress(PeerError):
                runtime.event(event, POD, {**CONTAINER, "env": env})
    keep("v0.12.5", "the handler failed with the text boom", calls, {"StartContainer": "-error"})
    keep("v0.12.5", "a request longer than 4096 bytes: two frames", calls, {"CreateContainer": "-large"}, nth=1)
    keep("v0.12.5", "the validator rejected", calls, {"ValidateContainerAdjustment": "-reject"})


def oldest() -> None:
    """StateChange: an old plugin answers Unimplemented first, an old runtime knows nothing else."""
    with session("", "061", {}) as (runtime, _, calls):
        runtime.event("RunPodSandbox", OLD_POD)
    what = "runtime v0.12.5, plugin v0.6.1"
    keep("old-plugin", what, calls, dict.fromkeys(("RegisterPlugin", "Configure", "RunPodSandbox", "StateChange"), ""))
    with session("061", "", {}, events=["RunPodSandbox", *CONTAINER_EVENTS]) as (runtime, _, calls):
        runtime.event("StartContainer", OLD_POD, OLD_CONTAINER)
    what = "runtime v0.6.1, plugin v0.12.5"
    keep("old-runtime", what, calls, dict.fromkeys(("Configure", "Synchronize", "StateChange"), ""))


def parts() -> None:
    """Synchronize in parts: lengths and the first bytes of the frames only, they hold megabytes."""
    state = {"generate": {"pods": 4, "containers": 5000, "bytes": 2000}}
    with session("", "", {"state": state}, events=["StartContainer"]) as (_, _, calls):
        pass
    frames: list[Frame] = []
    for call in calls:
        if call.method == "Synchronize":
            frames += [Frame(frame.direction, frame.data[:96]) for frame in (*call.request, *call.reply)]
    header = ["Synchronize of 5,000 containers in parts, containerd/nri v0.12.5; each frame is cut to 96 bytes"]
    write(FOLDER / "parts" / "v0.12.5-Synchronize.hex", header, frames)


def ttrpc(library: str, program: str) -> None:
    """The echo service of tests/peers/proto, no mux: metadata, deadline, empty answer, error, unknown names."""
    calls: dict[str, dict[str, Any]] = {
        "empty": {},
        "metadata": {"payload_size": 3, "metadata": {"traceparent": ["00-1"]}, "timeout_ms": 5000},
        "error": {"code": 5, "message": "no such thing"},
        "unknown-method": {"method": "Nothing"},
        "unknown-service": {"service": "nri.test.Nothing"},
    }
    for name, call in calls.items():
        with tempfile.TemporaryDirectory(prefix="nri-") as folder:
            socket, tapped = Path(folder, "s"), Path(folder, "t")
            with LineProcess([peer(program), "server", "-socket", socket]) as server:
                server.wait_event("listening")
                tap = Tap(tapped, socket, "C", "S", mux=False)
                with LineProcess([peer(program), "client", "-socket", tapped]) as client:
                    client.ask(call)
                tap.close()
                server.kill()
            (matches,) = tap.exchanges()
            header = [f"{matches.service}/{matches.method}", f"{library} on both sides, no mux"]
            write(FOLDER / "ttrpc" / f"{program}-{name}.hex", header, [*matches.request, *matches.reply])


def main() -> None:
    """All sessions."""
    steps: tuple[Callable[[], None], ...] = (newest, answers, oldest, parts)
    for step in steps:
        print(f"capture: {step.__name__}", file=sys.stderr)
        step()
    ttrpc("containerd/ttrpc v1.2.7", "ttrpcpeer")
    ttrpc("crate ttrpc 0.10.0", "rustpeer")


if __name__ == "__main__":
    main()
