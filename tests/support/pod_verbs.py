"""`nri pod` as people call it, on a runtime of a test's: a manifest with much in it, the verbs, a person's terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from nri.host.cgroups import detect
from nri.host.root import MACHINE
from tools.runtimes.images import BUSYBOX

NRI = [sys.executable, "-m", "nri", "pod"]
WEB = f"""
kind: Pod
metadata: {{name: web, labels: {{app: web}}, annotations: {{example.org/a: b}}}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 5
  volumes:
  - {{name: data, emptyDir: {{}}}}
  - {{name: host, hostPath: {{path: HOST, type: DirectoryOrCreate}}}}
  initContainers:
  - name: prepare
    image: {BUSYBOX}
    command: [sh, -c, "echo ready > /data/file"]
    volumeMounts: [{{name: data, mountPath: /data}}]
  containers:
  - name: app
    image: {BUSYBOX}
    command: [sh, -c]
    args: ["echo $(GREETING) $POD; cat /data/file; trap 'echo bye; exit 3' TERM; while true; do sleep 0.1; done"]
    env:
    - {{name: GREETING, value: hello}}
    - {{name: POD, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
    resources: {{limits: {{memory: 64Mi, cpu: 500m}}}}
    livenessProbe: {{exec: {{command: ["true"]}}}}
    securityContext: {{runAsUser: 1000, readOnlyRootFilesystem: true, capabilities: {{drop: [ALL]}}}}
    volumeMounts:
    - {{name: data, mountPath: /data, readOnly: true}}
    - {{name: host, mountPath: /host, subPath: sub}}
  - {{name: shell, image: {BUSYBOX}, command: [sh], stdin: true, tty: true}}
"""


class Verbs:
    """`nri pod` for one runtime; pods have their folders below `folder`, and their cgroups below `cgroup`."""

    def __init__(self, cri_socket: Path, cgroup: str, folder: Path) -> None:
        self.folder, self.cgroup = folder, cgroup
        self._environment = {
            **os.environ,
            "NRI_CRI_SOCKET": str(cri_socket),
            "NRI_PODS_DIR": str(folder / "pods"),
        }

    def __call__(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        argv = [*NRI, *words]
        return subprocess.run(
            argv, input=stdin, capture_output=True, timeout=60, check=False, env=self._environment, cwd=self.folder
        )

    def run(self, text: str, *more: str) -> subprocess.CompletedProcess[bytes]:
        (self.folder / "pod.yaml").write_text(text.replace("HOST", str(self.folder / "host")))
        return self("run", "-f", "pod.yaml", "--cgroup-root", f"/{self.cgroup}", *more)

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a verb without waiting for its end, also in a session that ignores SIGHUP, such as one of nohup."""
        return subprocess.Popen(
            ["env", "--default-signal=HUP", *NRI, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            cwd=self.folder,
        )

    def in_terminal(self, *words: str) -> Terminal:
        return Terminal([*NRI, *words], self._environment)

    def cgroups(self) -> list[str]:
        return detect(MACHINE).below(f"/{self.cgroup}/kubepods/burstable")


class Terminal:
    """A verb that has a terminal, and its person."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str]) -> None:
        self._process, self._end = pty.fork()
        if not self._process:
            os.execve(argv[0], list(argv), environment)
        self.said = ""

    def until(self, holds: Callable[[str], bool]) -> None:
        while not holds(self.said):
            try:
                self.said += os.read(self._end, 4096).decode()
            except OSError:
                raise AssertionError(f"it has ended: {self.said!r}") from None

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def ended(self) -> int:
        """Its exit code; what it says until then is kept, or a terminal would never be done with it."""
        while True:
            try:
                self.said += os.read(self._end, 4096).decode()
            except OSError:
                break
        os.close(self._end)
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
