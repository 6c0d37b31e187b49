"""Images as OCI layouts, made by hand, so that a test can say anything in them, true or not.

One job: `layout` writes one, for `ImageStore.load`, or for skopeo to push. `base_layer` has a busybox in it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.runtimes.images import _static_busybox
from tools.runtimes.machine import architecture

MEDIA = "application/vnd.oci.image"
APPLETS = ("sh", "id", "sleep", "cat", "echo", "kill", "mkdir")


def digest(data: bytes) -> str:
    """The digest of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer(files: Mapping[str, bytes | str | None]) -> bytes:
    """A layer: path -> content, the target of a link, or None for a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            row = tarfile.TarInfo(path)
            row.mode = 0o755
            if isinstance(content, bytes):
                row.size = len(content)
                archive.addfile(row, io.BytesIO(content))
            else:
                row.type = tarfile.DIRTYPE if content is None else tarfile.SYMTYPE
                row.linkname = content or ""
                archive.addfile(row)
    return buffer.getvalue()


def base_layer(**files: bytes) -> bytes:
    """A layer with a busybox and some applets, and files of /etc by their names."""
    entries: dict[str, bytes | str | None] = dict.fromkeys(("bin", "dev", "etc", "proc", "sys", "tmp"))
    entries["bin/busybox"] = _static_busybox(print).read_bytes()
    entries.update((f"bin/{applet}", "busybox") for applet in APPLETS)
    entries.update((f"etc/{name}", content) for name, content in files.items())
    return layer(entries)


def layout(
    folder: Path,
    layers: Sequence[bytes],
    *,
    config: Mapping[str, Any] | None = None,
    whole_config: Any = None,
    diff_ids: Sequence[Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> str:
    """Write a layout; returns its name for skopeo.

    `config` is the part for containers; `whole_config`, or `diff_ids` in it, are other than the layers say;
    `manifest` has keys that are put into the manifest as they are.
    """
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def add(data: bytes, kind: str) -> dict[str, Any]:
        (blobs / digest(data).partition(":")[2]).write_bytes(data)
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}

    ids = [digest(layer) for layer in layers] if diff_ids is None else list(diff_ids)
    created = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sleep", "1000000"], **(config or {})},
        "rootfs": {"type": "layers", "diff_ids": ids},
    }
    text = json.dumps(created if whole_config is None else whole_config)
    rows = [add(gzip.compress(layer, mtime=0), f"{MEDIA}.layer.v1.tar+gzip") for layer in layers]
    body = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}.manifest.v1+json",
        "config": add(text.encode(), f"{MEDIA}.config.v1+json"),
        "layers": rows,
        **(manifest or {}),
    }
    row = add(json.dumps(body).encode(), f"{MEDIA}.manifest.v1+json")
    index = {"schemaVersion": 2, "manifests": [{**row, "annotations": {"org.opencontainers.image.ref.name": "x"}}]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    return f"oci:{folder}:x"
