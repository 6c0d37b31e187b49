"""A private etcd and kube-apiserver: pods come from an API, as on a cluster, but without scheduler and controllers.

Rules: a pod names its node, or it stays pending; files lie in the run directory of the runtime whose node joins; all is
reached at one address of that run's bridge, because an API server refuses to call nodes on the loopback interface.
Next: `cluster`, a node that has joined.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kubernetes import build
from tests.support.needs import need_tool
from tests.support.ports import HeldPort
from tests.support.waiting import wait_for
from tools.runtimes import debs
from tools.runtimes.config import pod_gateway
from tools.runtimes.machine import Say, architecture, cache_dir, cache_lock

Json = dict[str, Any]
ETCD_SUITE = "bookworm"
START_TIMEOUT_S = 300.0


def install_etcd(say: Say) -> Path:
    """Debian's etcd, unpacked into the cache: nothing is installed."""
    folder = cache_dir() / f"etcd-{ETCD_SUITE}-{architecture()}"
    with cache_lock(folder.name):
        if not folder.exists():
            say(f"fetching etcd from Debian {ETCD_SUITE}")
            with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
                content = Path(scratch, "content")
                content.mkdir()
                debs.unpack("etcd-server", ETCD_SUITE, content, Path(scratch, "apt"))
                shutil.move(content, folder)
    return folder / "usr/bin/etcd"


class ControlPlane:
    """An API server with its etcd; `start()` it, use `kubectl`, `close()` it. `arguments` are further ones of it.

    With `for_pods` it also listens where pods reach it, and gives them the credentials of their service accounts, which
    must be there then: no controller makes one. It listens on `port`, or on any free one.
    """

    def __init__(
        self, run_dir: Path, say: Say, arguments: Sequence[str] = (), *, for_pods: bool = False, port: int = 0
    ) -> None:
        self.folder = run_dir / "api"
        (self.folder / "pki").mkdir(parents=True)
        self.kubeconfig = self.folder / "kubeconfig"
        self._programs = {name: build.program(name) for name in ("kube-apiserver", "kubectl")}
        self._etcd = install_etcd(say)
        self._ports = [HeldPort(port), HeldPort(), HeldPort()]
        self.port, self.address = self._ports[0].number, pod_gateway(run_dir)
        self._listen = "0.0.0.0" if for_pods else "127.0.0.1"
        self._arguments = [*arguments, *(() if for_pods else ("--disable-admission-plugins", "ServiceAccount"))]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str | Path]] = {}
        #: The administrator's.
        self.token = secrets.token_hex(16)
        #: Where etcd is asked.
        self.etcd = ""

    def start(self) -> None:
        """Start both and wait until the API is ready."""
        folder, client, peer = self.folder, self._ports[1].number, self._ports[2].number
        key, public, tokens = folder / "pki/sa.key", folder / "pki/sa.pub", folder / "tokens.csv"
        openssl = need_tool("openssl")
        subprocess.run([openssl, "genrsa", "-out", key, "2048"], check=True, capture_output=True, timeout=60)
        words = [openssl, "rsa", "-in", str(key), "-pubout", "-out", str(public)]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        tokens.write_text(f'{self.token},admin,admin,"system:masters"\n')
        self.etcd = etcd = f"http://127.0.0.1:{client}"
        peers = f"http://127.0.0.1:{peer}"
        self._run(
            "etcd",
            self._etcd,
            *("--name", "only", "--data-dir", f"{folder}/etcd", "--logger", "zap", "--unsafe-no-fsync"),
            *("--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", peers),
            *("--initial-advertise-peer-urls", peers, "--initial-cluster", f"only={peers}"),
        )
        self._run(
            "kube-apiserver",
            self._programs["kube-apiserver"],
            *("--etcd-servers", etcd, "--cert-dir", f"{folder}/pki", "--token-auth-file", f"{tokens}"),
            *("--bind-address", self._listen, "--secure-port", str(self.port), "--advertise-address", self.address),
            *("--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.96.0.0/24"),
            *("--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", f"{public}"),
            *("--service-account-signing-key-file", f"{key}", "--authorization-mode", "RBAC"),
            *("--kubelet-preferred-address-types", "InternalIP"),
            *self._arguments,
        )
        self.kubeconfig.write_text(json.dumps(self.kubeconfig_of(self.token)))
        self._wait()

    def start_controllers(self) -> None:
        """Start the controller manager and the scheduler."""
        common = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1")
        key = f"--service-account-private-key-file={self.folder}/pki/sa.key"
        roots = f"--root-ca-file={self.folder}/pki/apiserver.crt"
        certificates = f"--cert-dir={self.folder}/pki/controllers"
        name = "kube-controller-manager"
        self._run(name, build.program(name), *common, certificates, key, roots, "--use-service-account-credentials")
        self._run("kube-scheduler", build.program("kube-scheduler"), *common)

    def kill_apiserver(self) -> None:
        """Kill the API server, not its etcd."""
        process = self._processes["kube-apiserver"]
        process.kill()
        process.wait()

    def start_apiserver(self) -> None:
        """Start it again where it was, and wait until it is ready."""
        self._spawn("kube-apiserver")
        self._wait()

    @property
    def is_up(self) -> bool:
        """Whether the API server runs."""
        return self._processes["kube-apiserver"].poll() is None

    def kubeconfig_of(self, token: str, address: str = "127.0.0.1") -> Json:
        """A client's configuration with a token; `address` is one that the API server listens on."""
        return _kubeconfig(address, self.port, token)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.kubectl("get", "--raw", "/readyz", check=False).stdout != "ok":
            for process in self._processes.values():
                assert process.poll() is None, f"one of them ended:\n{self._story()}"
            assert time.monotonic() < deadline, f"the API was not ready in {START_TIMEOUT_S:g} s:\n{self._story()}"
            time.sleep(0.2)

    def kubectl(
        self, *words: str, stdin: str = "", check: bool = True, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; with `check`, a failure is an AssertionError with its words."""
        command = [str(self._programs["kubectl"]), "--kubeconfig", str(self.kubeconfig), *words]
        environment = {**os.environ, "HOME": str(self.folder)}
        completed = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout_s, env=environment
        )
        assert not check or completed.returncode == 0, f"kubectl {' '.join(words)}: {completed.stderr}"
        return completed

    def create_crds(self, *words: str) -> None:
        """Apply files, and wait until the API serves their custom resources. `words` are those of kubectl apply."""
        self.kubectl("apply", *words)
        # kubectl wait fails for a resource whose conditions are not written yet.
        wait = ("wait", "--for=condition=Established", "crd", "--all")
        wait_for(lambda: self.kubectl(*wait, check=False).returncode == 0, "the custom resources")

    def get(self, *what: str) -> Json:
        """An object as the API has it."""
        completed: Json = json.loads(self.kubectl("get", *what, "-o", "json").stdout)
        return completed

    def apply(self, *objects: Json) -> None:
        """Create objects or change them."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]}))

    def close(self) -> None:
        """End all of them."""
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGKILL)
            process.wait()
        self._processes.clear()
        for port in self._ports:
            port.close()

    @property
    def pids(self) -> list[int]:
        """The processes of all of them."""
        return [process.pid for process in self._processes.values()]

    def _run(self, name: str, program: Path, *arguments: str) -> None:
        # It ends with us, also where a run of tests is killed.
        self._commands[name] = [need_tool("setpriv"), "--pdeathsig", "KILL", program, *arguments]
        self._spawn(name)

    def _spawn(self, name: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen(
                self._commands[name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _story(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{log.name}: {' / '.join(log.read_text().splitlines()[-5:])}" for log in logs)


def _kubeconfig(address: str, port: int, token: str) -> Json:
    """How to reach it: its certificate is its own and not checked."""
    cluster = {"server": f"https://{address}:{port}", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "only", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "only", "context": {"cluster": "only", "user": "admin"}}],
        "current-context": "only",
    }
