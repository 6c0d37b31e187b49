"""A container image with a static busybox, the machine's own or Debian's: no registry, no compiler.

One OCI archive has two names: `BUSYBOX` for containers, and `PAUSE` for the process that holds a pod's namespaces (the
same content: its entrypoint sleeps). The same busybox gives the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tools.runtimes import debs
from tools.runtimes.machine import Say, architecture, cache_dir, cache_lock, find_tool

BUSYBOX = "localhost/nri/busybox:1"
PAUSE = "localhost/nri/pause:1"
BUSYBOX_SUITE = "trixie"
FOREVER = ("/bin/sleep", "2147483647")
FOLDERS = ("bin", "dev", "etc", "home", "proc", "root", "run", "sys", "usr", "var")
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
GROUP = b"root:x:0:\nnogroup:x:65534:\n"
_PT_INTERP = 3
MEDIA = "application/vnd.oci.image"


def image_archive(say: Say) -> Path:
    """The path of the image archive in the cache, made at the first call."""
    busybox = _static_busybox(say)
    binary = busybox.read_bytes()
    path = cache_dir() / f"image-{hashlib.sha256(binary + __doc__.encode()).hexdigest()[:12]}.tar"
    with cache_lock("image"):
        if not path.exists():
            listing = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True)
            fresh = path.with_suffix(".new")
            fresh.write_bytes(_archive(_layer(binary, listing.stdout.split())))
            os.rename(fresh, path)
    return path


def _static_busybox(say: Say) -> Path:
    """The installed busybox if it needs no libraries, else one unpacked into the cache.

    Unpacked, not installed: the package busybox-static would push busybox off the system.
    """
    installed = find_tool("busybox")
    if installed and _is_static(Path(installed)):
        return Path(installed)
    folder = cache_dir() / f"busybox-{architecture()}"
    with cache_lock(folder.name):
        if not folder.exists():
            say(f"fetching busybox from Debian {BUSYBOX_SUITE}")
            with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
                content = Path(scratch, "content")
                content.mkdir()
                debs.unpack("busybox-static", BUSYBOX_SUITE, content, Path(scratch, "apt"))
                os.rename(content, folder)
    # Debian moved it from /bin to /usr/bin.
    return next(path for path in (folder / "usr/bin/busybox", folder / "bin/busybox") if path.exists())


def _is_static(program: Path) -> bool:
    """Whether an ELF program names no dynamic loader (a 64-bit program header of type PT_INTERP)."""
    data = program.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        return False
    (offset,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    return all(struct.unpack_from("<I", data, offset + i * size)[0] != _PT_INTERP for i in range(count))


def _layer(busybox: bytes, applets: list[str]) -> bytes:
    """The root file system: busybox, a link for each applet, and a few folders."""
    entries: list[tuple[str, int, bytes | str | None]] = [(name, 0o755, None) for name in FOLDERS]
    entries += [("tmp", 0o1777, None), ("bin/busybox", 0o755, busybox)]
    entries += [(f"bin/{name}", 0o777, "busybox") for name in applets if name != "busybox"]
    return _tar([*entries, ("etc/passwd", 0o644, PASSWD), ("etc/group", 0o644, GROUP)])


def _archive(layer: bytes) -> bytes:
    """An OCI image layout as a tar: one layer, one image, two names."""
    blobs: dict[str, bytes] = {}

    def add(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    config = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Entrypoint": list(FOREVER), "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}.manifest.v1+json",
        "config": add(_json(config), f"{MEDIA}.config.v1+json"),
        "layers": [add(gzip.compress(layer, mtime=0), f"{MEDIA}.layer.v1.tar+gzip")],
    }
    image = add(_json(manifest), f"{MEDIA}.manifest.v1+json")
    # The first is the key that containerd's import takes an image's name from, the second is skopeo's.
    keys = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
    named = [{**image, "annotations": dict.fromkeys(keys, name)} for name in (BUSYBOX, PAUSE)]
    index = _json({"schemaVersion": 2, "manifests": named})
    entries: list[tuple[str, int, bytes | str | None]] = [
        ("oci-layout", 0o644, b'{"imageLayoutVersion":"1.0.0"}'),
        ("index.json", 0o644, index),
        ("blobs", 0o755, None),
        ("blobs/sha256", 0o755, None),
    ]
    return _tar([*entries, *((f"blobs/sha256/{name}", 0o644, data) for name, data in blobs.items())])


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _tar(entries: list[tuple[str, int, bytes | str | None]]) -> bytes:
    """A tar of (name, mode, content): bytes are a file, text a link's target, None a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, mode, content in entries:
            info = tarfile.TarInfo(name)
            info.mode = mode
            if content is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()
