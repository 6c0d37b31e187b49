"""A node for the agent: a private containerd, a root in which the run's cgroups are the machine's, and the program.

Rules: pods lie below `kubepods` of the run's own cgroup, made as a kubelet makes them, so that nothing outside of the
run is read or written; the agent is `nri agent run`, a process of its own, with nothing but its files.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families

from nri.cri.pb import api_pb2 as pb
from tests.agent import files
from tests.agent.unread import unread
from tests.support.waiting import wait_for
from tools.runtimes import Containerd
from tools.runtimes.cri import Cri, Pod
from tools.runtimes.machine import PATIENCE
from tools.runtimes.mounts import unmount

FOLDERS = {"BestEffort": "kubepods/besteffort", "Burstable": "kubepods/burstable", "Guaranteed": "kubepods"}
WAIT_S = 30.0 * PATIENCE
#: How long a runtime waits for the agent, in seconds: a busy machine may not run one for longer than a node would wait.
REQUEST_S = 5.0 * PATIENCE
#: No creation is shorter, and what connections say to each other by themselves is.
_REQUEST_BYTES = 200


@contextlib.contextmanager
def machine(folder: Path, cgroup: str) -> Iterator[Path]:
    """A root path in which a run's own cgroup is the top of each hierarchy, and is also found by its own name."""
    places = [(Path("/proc"), folder / "proc"), (Path("/sys/devices"), folder / "sys/devices")]
    for top in files.tops():
        for name in FOLDERS.values():
            files.make_cgroup(top, f"{cgroup}/{name}")
        present = folder / str(top).lstrip("/")
        places += [(top / cgroup, present), (top / cgroup, present / cgroup)]
    with contextlib.ExitStack() as stack:
        for source, target in places:
            target.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--bind", str(source), str(target)], check=True, timeout=10)
            stack.callback(unmount, target)
        yield folder


class Node:
    """One containerd, its root, and files for the agent."""

    def __init__(self, daemon: Containerd, root: Path, folder: Path) -> None:
        self.daemon, self.root, self.folder = daemon, root, folder
        self.rules = folder / "rules"
        self.rules.mkdir(parents=True)
        self.cgroup = daemon.run_dir.name

    def rule(self, kind: str, document: Mapping[str, Any]) -> None:
        """Have a file say a rule, at once as a whole."""
        temporary = self.folder / f"{kind}.new"
        temporary.write_text(json.dumps({"kind": kind, **document}))
        os.replace(temporary, self.rules / f"{kind}.json")

    def run_pod(self, name: str, kube_class: str, cri: Cri | None = None, **words: Mapping[str, str]) -> Pod:
        """Run a pod in a cgroup that is there before, as a kubelet does it; `cri` is another way to the runtime."""
        uid = str(uuid.uuid4())
        folder = f"{self.cgroup}/{FOLDERS[kube_class]}/pod{uid}"
        for top in files.tops():
            if (top / self.cgroup).is_dir():
                files.make_cgroup(top, folder)
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, uid=uid, namespace="shop"),
            log_directory=str(self.daemon.run_dir / "logs"),
            labels={"io.kubernetes.pod.uid": uid, **words.get("labels", {})},
            annotations=words.get("annotations", {}),
            linux=pb.LinuxPodSandboxConfig(
                cgroup_parent=f"/{folder}",
                security_context=pb.LinuxSandboxSecurityContext(
                    namespace_options=pb.NamespaceOption(network=pb.NODE, pid=pb.CONTAINER, ipc=pb.POD)
                ),
            ),
        )
        reply = (cri or self.daemon.cri).call("RunPodSandbox", pb.RunPodSandboxRequest(config=config))
        return Pod(reply.pod_sandbox_id, config)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod and its cgroup, as a kubelet does it."""
        self.daemon.cri.remove_pod(pod.id)
        folder = pod.config.linux.cgroup_parent.strip("/")
        for top in files.tops():
            with contextlib.suppress(OSError):
                (top / folder).rmdir()

    def value(self, pod: Pod, file: str) -> str:
        """The text of a file of a pod's own cgroup, in the words of version 1."""
        return files.of_cgroup(pod.config.linux.cgroup_parent.strip("/"), file)

    def overwrite(self, pod: Pod, file: str, text: str) -> None:
        """Write a file of a pod's own cgroup, as somebody else."""
        files.overwrite(pod.config.linux.cgroup_parent.strip("/"), file, text)

    def of(self, container: str, file: str) -> str:
        """The text of a file of a container's cgroup, in the words of version 1."""
        return files.of_process(self.pid(container), file)

    def pid(self, container: str) -> int:
        """A container's first process."""
        return int(self.daemon.cri.info(container)["pid"])

    def container_output(self, pod: Pod, name: str) -> str:
        """The whole lines that a container has written, without the times of its log."""
        text = (self.daemon.run_dir / "logs" / f"{pod.id}-{name}.log").read_text().rpartition("\n")[0]
        return "\n".join(line.split(" ", 3)[3] for line in text.splitlines() if line.count(" ") >= 3)

    def recorded(self, pod: Pod, story: Callable[[], str]) -> list[str]:
        """What the container's process found at its first instruction: shares, quota, memory, OOM score, CPUs."""
        wait_for(lambda: len(self.container_output(pod, "app").splitlines()) >= 5, story)
        return [
            line.removeprefix("Cpus_allowed_list:").strip()
            for line in files.recorded(self.container_output(pod, "app").splitlines())
        ]


class AgentProgram:
    """`nri agent run` on a node, until the end of the `with`; `pods` is the source of its pods."""

    def __init__(self, node: Node, modes: str, more: str = "", pods: str = "cri") -> None:
        self.node, self.modes = node, modes
        self.socket = str(node.folder / "agent.sock")
        self.log = node.folder / "agent.log"
        self.settings_file = node.folder / "agent.toml"
        self.settings_file.write_text(_configuration(node, self.socket, pods) + more)
        self.process: subprocess.Popen[bytes] | None = None
        #: Further options.
        self.more: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self) -> None:
        """Start it, and wait until every part does its work."""
        argv = [
            sys.executable,
            "-m",
            "nri",
            "agent",
            "run",
            "--mode",
            self.modes,
            "--config",
            str(self.settings_file),
            *self.more,
        ]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_ready()

    @property
    def pid(self) -> int:
        """Its process."""
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_S)

    def stop(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(WAIT_S)

    def pause(self) -> None:
        """Stop it by a signal, and wait until all its threads have: they stop one after the other."""
        os.kill(self.pid, signal.SIGSTOP)
        stats = Path(f"/proc/{self.pid}/task")
        wait_for(
            lambda: all(entry.read_text().rpartition(")")[2].split()[0] == "T" for entry in stats.glob("*/stat")),
            lambda: "it has not stopped",
        )

    def wait_asked(self, path: str) -> None:
        """While it is paused: wait until a request waits to be read by it, at a socket whose path begins so."""
        wait_for(lambda: unread(self.pid, path) >= _REQUEST_BYTES, lambda: f"{unread(self.pid, path)} bytes at {path}")

    def wait_ready(self, ready: bool = True) -> None:
        """Wait until it says that it is ready, or is not."""
        expected = 200 if ready else 503
        wait_for(lambda: self._status() == expected, self.story)

    def wait_held(self, what: str, count: int) -> None:
        """Wait until it says that it holds so many of something."""
        wait_for(lambda: self.metric("nri_agent_held", what=what) == count, self.story)

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of a metric with these labels; None if there is none."""
        families = text_string_to_metric_families(self.ask("/metrics"))
        samples = (sample for family in families for sample in family.samples)
        return next((sample.value for sample in samples if (sample.name, sample.labels) == (name, labels)), None)

    def ask(self, target: str) -> Any:
        """The answer to a request at its socket; JSON is read."""
        status, kind, text = self.asked(target)
        assert status == 200, f"{target}: {status} {text}\n{self.story()}"
        return json.loads(text) if kind == "application/json" else text

    def explain(self, name: str) -> dict[str, Any]:
        """What it tells of a pod of the namespace `shop`."""
        actual: dict[str, Any] = self.ask(f"/explain?pod=shop/{name}")
        return actual

    def story(self) -> str:
        """What it says of itself, for failures."""
        log = self.log.read_text(errors="replace")[-4000:]
        try:
            return f"{self.asked('/readyz')[2]}\n{log}"
        except OSError as error:
            return f"{error}\n{log}"

    def _status(self) -> int:
        assert self.process is not None
        assert self.process.poll() is None, f"it has ended\n{self.log.read_text(errors='replace')[-4000:]}"
        try:
            return self.asked("/readyz")[0]
        except OSError:
            return 0

    def asked(self, target: str) -> tuple[int, str, str]:
        """Status, type and text of the answer at its socket. Raises OSError where nobody listens."""
        connection = http.client.HTTPConnection("agent", timeout=WAIT_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(self.socket)
            connection.request("GET", target)
            response = connection.getresponse()
            return response.status, response.headers["Content-Type"], response.read().decode()
        finally:
            connection.close()


def _configuration(node: Node, path: str, pods: str) -> str:
    return f"""
root = "{node.root}"
socket = "{path}"
log_level = "info"

[nri]
socket = "{node.daemon.nri_socket}"
backoff = "100ms"
backoff_cap = "1s"

[standalone]
interval = "1s"
cgroup_driver = "cgroupfs"

[rules]
source = "files"
path = "{node.rules}"

[pods]
source = "{pods}"
cri = "{node.daemon.cri_socket if pods == "cri" else "/nowhere"}"
interval = "500ms"
"""
