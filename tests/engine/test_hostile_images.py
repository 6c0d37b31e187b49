"""Images with false metadata from a real registry are refused and do not affect other images."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from nri.engine.config import Registry
from nri.engine.images import ImageStore, RegistryRules, Transport
from nri.engine.images.space_budget import Limits
from nri.engine.support.errors import EngineError, InvalidRequest
from tests.engine.machine import Machine
from tests.engine.registry import RegistryProcess
from tests.support.needs import need_tool
from tests.support.oci_layouts import MEDIA, digest, layer, layout

BASE, GUARD = layer({"etc": None, "etc/base": b"1"}), layer({"etc": None, "etc/guard": b"2"})
BOTH = [digest(BASE), digest(GUARD)]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("registry") / "r") as process:
        yield process


@pytest.fixture
def store(machine: Machine, registry: RegistryProcess) -> ImageStore:
    need_tool("umoci")
    transport = Transport(need_tool("skopeo"), RegistryRules([Registry(registry.host, insecure=True)]))
    return ImageStore(machine.folder / "images", transport)


def files(store: ImageStore, name: str) -> list[str]:
    root = store.mount(store.get(name), "c1")
    actual = sorted(path.name for path in (root / "etc").iterdir())
    store.unmount("c1")
    return actual


LIES = {
    "some": [BASE], "none": [], "other order": [GUARD, BASE], "twice": [BASE, GUARD, GUARD],
    "another one": [BASE, BASE],
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("way", ["pull", "load"])
def test_a_manifest_with_other_layers_than_its_configuration_replaces_no_image(
    store: ImageStore, registry: RegistryProcess, lie: str, way: str
) -> None:
    folder = store.root.parent
    good, evil = layout(folder / "good", [BASE, GUARD]), layout(folder / "evil", LIES[lie], diff_ids=BOTH)
    bring = store.pull if way == "pull" else lambda name: store.load(evil, name)
    name = registry.push("evil:1", evil) if way == "pull" else "evil:1"
    with pytest.raises(EngineError):
        bring(name)
    assert (list(store.list()), [*(store.root / "images").iterdir()], [*(store.root / "pulls").iterdir()]) == (
        [], [], [],
    )  # fmt: skip
    trusted = registry.push("trusted:1", good)
    image = store.pull(trusted)
    assert files(store, trusted) == ["base", "guard"]
    if len(LIES[lie]) != 2:  # what else could differ does not change what this id has
        with pytest.raises(InvalidRequest, match="layers, its configuration 2"):
            bring(name)
    assert list(store.list()) == [image]
    assert list(ImageStore(store.root, store.transport).list()) == [image]


@pytest.mark.parametrize("lie", ["some", "other order"])
def test_a_docker_manifest_with_other_layers_replaces_no_image(
    store: ImageStore, registry: RegistryProcess, lie: str
) -> None:
    folder = store.root.parent
    layout_folder = layout(folder / "docker", [BASE, GUARD])
    name = registry.push("docker:1", layout_folder, "--format=v2s2")
    image = store.pull(name)
    assert files(store, name) == ["base", "guard"]
    store.remove(name)
    path = "application/vnd.docker.distribution.manifest.v2+json"
    url = f"http://{registry.host}/v2/docker/manifests/1"
    manifest = json.loads(urlopen(Request(url, headers={"Accept": path}), timeout=20).read())
    assert manifest["config"]["digest"] == image.id
    manifest["layers"] = manifest["layers"][:1] if lie == "some" else manifest["layers"][::-1]
    put = Request(url, json.dumps(manifest).encode(), {"Content-Type": path}, method="PUT")
    assert urlopen(put, timeout=20).status == 201
    with pytest.raises(EngineError):
        store.pull(name)
    assert list(store.list()) == []


def test_images_without_layers_and_with_a_repeated_layer_are_accepted(store: ImageStore) -> None:
    folder = store.root.parent
    empty = store.load(layout(folder / "empty", []), "empty:1")
    assert [*store.mount(empty, "c1").iterdir()] == []
    store.unmount("c1")
    store.load(layout(folder / "twice", [BASE, BASE]), "twice:1")
    assert files(store, "twice:1") == ["base"]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"config": {"User": 7}}, "config.User is 7; it must be a string"),
        ({"config": {"Env": "PATH=/bin"}}, "config.Env is 'PATH=/bin'; it must be a list"),
        ({"config": {"Labels": {"a": 1}}}, r"config.Labels\[0\] is 1; it must be a string"),
    ],
)
def test_a_configuration_with_wrong_types_is_an_error_that_names_the_key(
    store: ImageStore, registry: RegistryProcess, changed: dict[str, Any], problem: str
) -> None:
    name = registry.push("odd:1", layout(store.root.parent / "odd", [BASE], **changed))
    with pytest.raises((InvalidRequest, EngineError), match=f"{name}.*({problem}|cannot unmarshal)"):
        store.pull(name)
    assert list(store.list()) == []


def test_zstd_layers_are_unpacked_under_the_same_id(store: ImageStore, registry: RegistryProcess) -> None:
    folder = store.root.parent / "zstd"
    source = layout(folder, [BASE, GUARD])
    packed = subprocess.run([need_tool("zstd"), "-c"], input=GUARD, capture_output=True, check=True).stdout
    (folder / "blobs/sha256" / digest(packed)[7:]).write_bytes(packed)
    rewrite(folder, lambda manifest: manifest["layers"][1].update(
        mediaType=f"{MEDIA}.layer.v1.tar+zstd", digest=digest(packed), size=len(packed)
    ))  # fmt: skip
    digest_ = manifest_of(folder)["config"]["digest"]
    name = registry.push("zstd:1", source)
    assert store.pull(name).id == digest_
    assert files(store, name) == ["base", "guard"]
    store.remove(name)
    assert store.load(source, "zstd:1").id == digest_


def manifest_of(folder: Path) -> dict[str, Any]:
    index = json.loads((folder / "index.json").read_text())
    document: dict[str, Any] = json.loads((folder / "blobs/sha256" / index["manifests"][0]["digest"][7:]).read_bytes())
    return document


def rewrite(folder: Path, change: Any) -> None:
    """Change the manifest of a layout."""
    manifest = manifest_of(folder)
    change(manifest)
    data = json.dumps(manifest).encode()
    (folder / "blobs/sha256" / digest(data)[7:]).write_bytes(data)
    index = json.loads((folder / "index.json").read_text())
    index["manifests"][0].update(digest=digest(data), size=len(data))
    (folder / "index.json").write_text(json.dumps(index))


def sparse(size_bytes: int) -> bytes:
    """A layer with a file that is one hole, in a few bytes."""
    row = tarfile.TarInfo("hole")
    row.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "hole",
                       "GNU.sparse.realsize": str(size_bytes)}  # fmt: skip
    holes = b"0\n".ljust(512, b"\0")
    row.size = len(holes)
    bytes_io = io.BytesIO()
    with tarfile.open(fileobj=bytes_io, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(row, io.BytesIO(holes))
    return bytes_io.getvalue()


TOO_LARGE = r"needs \d+ bytes; the limit \(images\.size_limit\) is 16777216 bytes"
TOO_MANY = r"contains more than 1000 files; the limit \(images\.entries_limit\) is 1000"
BOMBS = {
    "zeros": (layer({"zeros": bytes(48 << 20)}), TOO_LARGE),
    "a hole": (sparse(1 << 40), TOO_LARGE),
    "files": (layer({f"f{number}": b"" for number in range(3000)}), TOO_MANY),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("way", ["pull", "load"])
def test_a_layer_above_the_size_limit_leaves_no_files(
    store: ImageStore, registry: RegistryProcess, bomb: str, way: str
) -> None:
    store.limits = Limits(16 << 20, 1000)
    content, problem = BOMBS[bomb]
    source = layout(store.root.parent / "bomb", [BASE, content])
    bring = store.pull if way == "pull" else lambda name: store.load(source, name)
    name = registry.push("bomb:1", source) if way == "pull" else "bomb:1"
    with pytest.raises(EngineError, match=rf"image .*bomb:1: (it|layer sha256:\w+) {problem}"):
        bring(name)
    assert (list(store.list()), [*(store.root / "images").iterdir()], [*(store.root / "pulls").iterdir()]) == (
        [], [], [],
    )  # fmt: skip
