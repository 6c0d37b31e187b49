"""A real registry on loopback (github.com/distribution/distribution), with or without passwords and TLS."""

from __future__ import annotations

import json
import socket
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Self

from tests.peers.build import peer
from tests.support.needs import need_tool
from tests.support.ports import HeldPort
from tools.runtimes.images import BUSYBOX, image_archive

#: user "me", password "secret"; bcrypt, the only form that the registry takes.
HTPASSWD = "me:$2y$05$GBKyq9xB6nvGSCOZvmGX0.MVRn8XZuVbMxJpmJIy1MQL/ZO6mC64O\n"


def busybox(folder: Path) -> str:
    """The busybox image of all our tests as a layout with the one tag that skopeo 1.9 can ask for."""
    layout = folder / "busybox"
    if not layout.exists():
        with tarfile.open(image_archive(print)) as archive:
            extract(archive, layout)
        index = json.loads((layout / "index.json").read_text())
        row = next(row for row in index["manifests"] if BUSYBOX in row["annotations"].values())
        row["annotations"] = {"org.opencontainers.image.ref.name": "x"}
        (layout / "index.json").write_text(json.dumps({**index, "manifests": [row]}))
    return f"oci:{layout}:x"


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive of our own; newer Pythons ask for a filter, and older ones know none."""
    archive.extraction_filter = staticmethod(lambda member, _: member)
    archive.extractall(folder)


class RegistryProcess:
    """A registry with its files below `folder`; ends with the block."""

    def __init__(self, folder: Path, *, password: bool = False, tls: bool = False) -> None:
        self.folder, self._password, self._tls = folder, password, tls
        folder.mkdir(parents=True)
        self._port = HeldPort()
        self.host = f"localhost:{self._port.number}"
        self.log = folder / "log"

    def __enter__(self) -> Self:
        config = self.folder / "config.yml"
        config.write_text(json.dumps(self._config()))
        with self.log.open("wb") as log:
            argv = [str(peer("registry")), "serve", str(config)]
            environment = {"OTEL_TRACES_EXPORTER": "none", "PATH": "/usr/bin:/bin"}
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + 20
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self._port.number), 1):
                    return self
            except OSError:
                assert self._process.poll() is None and time.monotonic() < deadline, self.log.read_text()
                time.sleep(0.02)

    def _config(self) -> dict[str, object]:
        http: dict[str, object] = {"addr": self.host, "secret": "x"}
        if self._tls:
            http["tls"] = {"certificate": str(self.folder / "ca.crt"), "key": str(self.folder / "key.pem")}
            subprocess.run(
                [need_tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                 "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                 "-keyout", str(self.folder / "key.pem"), "-out", str(self.folder / "ca.crt")],
                check=True, capture_output=True, timeout=60,
            )  # fmt: skip
            (self.folder / "certs").mkdir()
            (self.folder / "certs/ca.crt").write_bytes((self.folder / "ca.crt").read_bytes())
        actual: dict[str, object] = {
            "version": "0.1",
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "blobs")}, "delete": {"enabled": True}},
            "http": http,
        }
        if self._password:
            (self.folder / "htpasswd").write_text(HTPASSWD)
            actual["auth"] = {"htpasswd": {"realm": "tests", "path": str(self.folder / "htpasswd")}}
        return actual

    def push(self, name: str, source: str = "", *options: str) -> str:
        """Put an image in; the busybox of all our tests unless another one is named. Returns its full name."""
        source = source or busybox(self.folder)
        credentials = ["--dest-creds=me:secret"] if self._password else []
        argv = [need_tool("skopeo"), "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", *credentials,
                *options, source, f"docker://{self.host}/{name}"]  # fmt: skip
        process = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        assert process.returncode == 0, process.stderr
        return f"{self.host}/{name}"

    def pause(self, stop: bool) -> None:
        """Have it stand still, or go on."""
        self._process.send_signal(19 if stop else 18)

    def __exit__(self, *_: object) -> None:
        self.pause(False)
        self._process.terminate()
        self._process.wait(20)
        self._port.close()
