"""The image store on disk. tests/engine pulls real images."""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.engine.images import ImageStore
from nri.engine.images.key_locks import KeyLocks
from nri.engine.images.transport import Transport
from nri.engine.support.errors import EngineError, InvalidRequest, NotFound, TooMany

OLD, NEW = "sha256:" + "aa" * 32, "sha256:" + "ab" * 32


def put(root: Path, identity: str, **row: Any) -> Path:
    """An image in a store's folder, as a pull leaves it."""
    folder = root / "images" / identity.partition(":")[2]
    (folder / "rootfs").mkdir(parents=True, exist_ok=True)
    (folder / "rootfs/file").write_text("text")
    (folder / "image.json").write_text(json.dumps({"id": identity, "size_bytes": 10, "inodes": 2, **row}))
    return folder


def name(root: Path, **names: str) -> None:
    table = {entry.replace("__", ":"): target for entry, target in names.items()}
    (root / "names.json").write_text(json.dumps({"names": table, "removed": []}))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, OLD, pulled_at_ns=1)
    put(tmp_path, NEW, pulled_at_ns=2)
    names = {"docker.io/library/busybox:latest": OLD, f"docker.io/library/busybox@{OLD}": OLD}
    (tmp_path / "names.json").write_text(json.dumps({"names": names, "removed": []}))
    return tmp_path


def opened(root: Path) -> ImageStore:
    return ImageStore(root, Transport("/none"), driver="copy")


def test_images_are_listed_from_the_newest_with_names_and_digests(root: Path) -> None:
    store = opened(root)
    assert [image.id for image in store.list()] == [NEW, OLD]
    image = store.get("busybox")
    assert (image.repo_tags, image.repo_digests) == (
        ("docker.io/library/busybox:latest",),
        (f"docker.io/library/busybox@{OLD}",),
    )
    assert store.fs_info() == (20, 4, True)


@pytest.mark.parametrize("name_", ["busybox", "docker.io/library/busybox:latest", OLD, OLD[7:], OLD[7:20] + OLD[20:40]])
def test_an_image_is_found_by_name_id_or_prefix(root: Path, name_: str) -> None:
    assert opened(root).get(name_).id == OLD


@pytest.mark.parametrize("name_", ["", "alpine", "aaaa", "a" * 5, "sha256:", "../images", "A B"])
def test_missing_and_ambiguous_images_are_not_found(root: Path, name_: str) -> None:
    with pytest.raises(NotFound):
        opened(root).get(name_)


def test_removing_an_image_twice_is_not_an_error(root: Path) -> None:
    store = opened(root)
    store.remove("busybox")
    store.remove("busybox")
    assert [image.id for image in store.list()] == [NEW]
    assert [path.name for path in (root / "images").iterdir()] == [NEW[7:]]
    assert [image.id for image in opened(root).list()] == [NEW]


def test_an_image_in_use_is_kept_until_its_container_is_removed(root: Path) -> None:
    store = opened(root)
    mounted = store.mount(store.get("busybox"), "c1")
    assert (mounted / "file").read_text() == "text"
    store.remove("busybox")
    assert [image.id for image in store.list()] == [NEW]
    assert (root / "images" / OLD[7:]).exists()
    reopened_store = opened(root)
    assert (root / "images" / OLD[7:]).exists(), "a restart forgets who uses it"
    reopened_store.unmount("c1")
    assert not (root / "images" / OLD[7:]).exists()


def test_leftovers_of_a_kill_are_removed_and_unreadable_images_reported(root: Path) -> None:
    (root / "pulls/half").mkdir(parents=True)
    (root / "images" / OLD[7:] / "image.json").write_text("{")
    put(root, "sha256:" + "ac" * 32, surprise=1)
    store = opened(root)
    assert [image.id for image in store.list()] == [NEW]
    assert len(store.complaints) == 2
    assert all("has to be pulled again" in line for line in store.complaints)
    assert not [*(root / "pulls").iterdir()]


@pytest.mark.parametrize(
    "row", [{"chain_ids": ["sha256:../../victim"]}, {"chain_ids": ["x"]}, {"chain_ids": 1}, {"size_bytes": "1"}]
)
@pytest.mark.parametrize("record", ["image.json", "removed.json"])
def test_a_record_with_other_values_than_a_pull_writes_removes_only_its_image(
    root: Path, row: dict[str, Any], record: str
) -> None:
    (root / "victim").mkdir()
    folder = put(root, OLD, **row)
    (folder / "image.json").rename(folder / record)
    store = opened(root)
    assert ([image.id for image in store.list()], (root / "victim").exists()) == ([NEW], True)
    assert ["has to be pulled again" in line for line in store.complaints] == [True]


def test_folders_of_layers_without_a_valid_record_are_removed_and_others_stay(root: Path) -> None:
    for number, size in enumerate(("1e999", '"1"', "null", "[1]")):
        folder = root / "layers" / f"{number:064}"
        folder.mkdir(parents=True)
        (folder / "layer.json").write_text(f'{{"parent": "", "blob": "", "size_bytes": {size}, "inodes": 1}}')
    (root / "layers/lost+found").mkdir()
    assert opened(root).complaints == []
    assert {path.name for path in (root / "layers").iterdir()} == {"empty", "lost+found"}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"names": []}', "[" * 100_000])
def test_an_unreadable_file_of_names_leaves_images_without_names(root: Path, text: str) -> None:
    (root / "names.json").write_text(text)
    store = opened(root)
    assert len(store.list()) == 2
    assert ["without names" in line for line in store.complaints] == [True]


@pytest.mark.parametrize("odd", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_pipes_instead_of_files_do_not_block_the_start(root: Path, odd: Callable[[Path], None]) -> None:
    for path in (root / "names.json", root / "images" / OLD[7:] / "image.json"):
        path.unlink()
        odd(path)
    store = opened(root)
    assert [image.id for image in store.list()] == [NEW]
    assert [line for line in store.complaints if "without names" in line]


def test_mounting_a_missing_image_is_refused(root: Path) -> None:
    store = opened(root)
    image = store.get("busybox")
    store.remove("busybox")
    with pytest.raises(NotFound):
        store.mount(image, "c1")


def test_users_come_from_the_image_and_a_removed_image_is_an_error(root: Path) -> None:
    store = opened(root)
    image = store.get("busybox")
    etc = root / "images" / OLD[7:] / "rootfs/etc"
    etc.mkdir()
    (etc / "passwd").write_text("me:x:5:5::/:\n")
    assert store.accounts(image) == ("me:x:5:5::/:\n", "")
    store.remove("busybox")
    with pytest.raises(NotFound):
        store.accounts(image)


@pytest.mark.parametrize("source", ["docker://a", "dir:/a", "/a.tar", "oci-archive:a.tar"])
def test_only_archives_with_an_absolute_path_are_loaded(root: Path, source: str) -> None:
    with pytest.raises(InvalidRequest, match="is not an archive"):
        opened(root).load(source, "a:1")


class Large(Transport):
    """A registry whose one image is larger than any disk."""

    def manifest(self, source: str, *_: object, **__: object) -> bytes:
        layer = {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": NEW, "size": 1 << 60}
        config = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "sha256:" + "cd" * 32, "size": 9}
        return json.dumps({"schemaVersion": 2, "config": config, "layers": [layer]}).encode()

    def copy(self, *_: object, **__: object) -> None:
        raise AssertionError("it was begun")


def test_an_image_larger_than_the_disk_is_not_downloaded(root: Path) -> None:
    store = ImageStore(root, Large("/none"), driver="copy")
    with pytest.raises(
        EngineError, match=r"no space left for docker\.io/library/a:1: its new layers have \d{19,} bytes"
    ):
        store.pull("a:1")
    assert [*(root / "pulls").iterdir()] == []


class Full:
    """A disk that takes nothing new, as `nri.files` meets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        for entry in names:
            monkeypatch.setattr(f"nri.engine.images.store.{entry}", self.refuse)

    @staticmethod
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))


def test_an_image_can_be_removed_from_a_full_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(root)
    Full(monkeypatch, "write_whole", "rename_into", "set_aside")
    store.remove("busybox")
    assert [image.id for image in store.list()] == [NEW]
    assert [path.name for path in (root / "images").iterdir()] == [NEW[7:]]
    reopened_store = opened(root)
    assert ([image.id for image in reopened_store.list()], reopened_store.complaints) == ([NEW], [])
    with pytest.raises(NotFound):
        reopened_store.get("busybox")


def test_an_image_in_use_is_removed_from_a_full_disk_after_its_last_use(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(root)
    store.mount(store.get("busybox"), "c1")
    Full(monkeypatch, "write_whole")
    store.remove("busybox")
    reopened_store = opened(root)
    assert [image.id for image in reopened_store.list()] == [NEW]
    reopened_store.unmount("c1")
    assert not (root / "images" / OLD[7:]).exists()


def test_an_image_whose_files_cannot_be_removed_is_not_forgotten(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(root)
    image = store.get("busybox")
    with monkeypatch.context() as patch:
        Full(patch, "remove_tree")
        with pytest.raises(EngineError, match=f"image {OLD} is not removed: .*No space left"):
            store.remove("busybox")
        assert [entry.id for entry in store.list()] == [NEW, OLD]
        assert store.fs_info().size_bytes == 20
        with pytest.raises(EngineError, match="partly removed"):
            store.mount(image, "c1")
        reopened_store = opened(root)  # tries as well
        assert [entry.id for entry in reopened_store.list()] == [NEW, OLD]
        assert [OLD in line for line in reopened_store.complaints] == [True]
    store.remove(OLD)
    assert [entry.id for entry in store.list()] == [NEW]
    assert not (root / "images" / OLD[7:]).exists()


def test_files_that_cannot_be_removed_are_reported_at_the_start(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "pulls/half").mkdir(parents=True)
    (root / "pulls/file").touch()
    (root / "images" / OLD[7:] / "image.json").write_text("[" * 100_000)
    with monkeypatch.context() as patch:
        Full(patch, "remove_tree")
        store = opened(root)
    assert [image.id for image in store.list()] == [NEW]
    assert sorted(path.name for path in (root / "broken").iterdir()) == [OLD[7:], "file", "half"]
    assert len([line for line in store.complaints if "cannot be removed" in line]) == 3
    assert (opened(root).complaints, [*(root / "broken").iterdir()]) == ([], [])


def test_leftovers_of_an_interrupted_removal_are_removed(root: Path) -> None:
    folder = root / "images" / OLD[7:]
    (folder / "image.json").rename(folder / "removed.json")
    (folder / "rootfs/file").unlink()
    store = opened(root)
    assert ([image.id for image in store.list()], store.complaints) == ([NEW], [])
    assert not (root / "images" / OLD[7:]).exists()


def test_a_lock_of_a_name_does_not_block_other_names() -> None:
    locks, order, begun = KeyLocks(), [], threading.Event()

    def second() -> None:
        begun.set()
        with locks.hold("a"):
            order.append("second")

    with locks.hold("a"):
        thread = threading.Thread(target=second)
        thread.start()
        begun.wait(10)
        with locks.hold("b"):
            order.append("other")
        order.append("first")
    thread.join(10)
    assert order == ["other", "first", "second"]


def test_an_unlocked_name_is_forgotten() -> None:
    class Name(str):  # noqa: SLOT000  the test needs a weak reference
        """A name that supports weak references, so that the test can check when it is released."""

    locks, name = KeyLocks(), Name("a")
    with locks.hold(name), locks.hold("b"):
        ref = weakref.ref(name)
        del name
        assert ref() is not None
    gc.collect()
    assert ref() is None


# --- lists of manifests in lists ----------------------------------------------------------------------------------


INDEX = "application/vnd.oci.image.index.v1+json"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
HERE = ARCHITECTURES.get(os.uname().machine, os.uname().machine)


class Listing(Transport):
    """Stands in for a registry: documents by digest. `copy` ends the pull with an error that names its source."""

    def __init__(self) -> None:
        super().__init__("/none")
        self.blobs: dict[str, bytes] = {}
        self.top = ""
        self.asked = 0

    def timed(self, timer: object) -> Listing:
        return self

    def add(self, document: Any) -> str:
        data = json.dumps(document).encode()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[digest] = data
        return digest

    def image(self, architecture: str, **more: Any) -> str:
        config = self.add({"os": "linux", "architecture": architecture, **more})
        return self.add({"config": {"digest": config}, "layers": []})

    def list(self, *rows: str | tuple[str, str]) -> str:
        """A list of digests, each with the architecture that it is said to be for, or without a word."""
        result: list[dict[str, Any]] = []
        for row in rows:
            digest, architecture = (row, "") if isinstance(row, str) else row
            platform = {"platform": {"os": "linux", "architecture": architecture}} if architecture else {}
            result.append({"digest": digest, "mediaType": INDEX, **platform})
        return self.add({"mediaType": INDEX, "manifests": result})

    def manifest(self, name: str, folder: Path, credentials: Any = None, *, of_config: bool = False) -> bytes:
        self.asked += 1
        data = self.blobs[name.partition("@")[2] or self.top]
        return self.blobs[json.loads(data)["config"]["digest"]] if of_config else data

    def copy(self, source: str, *_: object, **__: object) -> None:
        raise EngineError(f"copied {source.partition('@')[2]}")

    def pulled(self, folder: Path, top: str) -> str:
        """What a pull of this list comes to: the digest that it copies, or its error."""
        self.top = top
        with pytest.raises(EngineError) as caught:
            ImageStore(folder, self, driver="copy").pull("a/b:1")
        return str(caught.value).removeprefix("copied ")


def test_an_index_without_a_match_is_followed_by_the_next(tmp_path: Path) -> None:
    registry = Listing()
    image_here = registry.image(HERE)
    alien = registry.list((registry.image("alien"), "alien"))
    assert (
        registry.pulled(tmp_path, registry.list(alien, registry.list(alien), registry.list((image_here, HERE))))
        == image_here
    )


def test_entries_for_this_platform_come_before_entries_without_a_platform(tmp_path: Path) -> None:
    registry = Listing()
    first, second = registry.image(HERE), registry.image(HERE, created="later")
    assert registry.pulled(tmp_path, registry.list(registry.list((first, HERE)), (second, HERE))) == second
    assert registry.asked == 2


def test_without_a_platform_the_configuration_decides(tmp_path: Path) -> None:
    registry = Listing()
    image_here = registry.image(HERE)
    assert registry.pulled(tmp_path, registry.list(registry.image("alien"), image_here)) == image_here
    error_text = registry.pulled(tmp_path, registry.list(registry.image("alien"), registry.list((image_here, "odd"))))
    assert error_text == f"docker.io/a/b:1 is not for linux/{HERE}; it is for linux/alien, linux/odd"


def test_nested_indexes_have_a_depth_limit(tmp_path: Path) -> None:
    registry = Listing()
    image_here = registry.image(HERE)
    three = registry.list(registry.list(registry.list(image_here)))
    assert registry.pulled(tmp_path, three) == image_here
    assert "nested more than 3 deep" in registry.pulled(tmp_path, registry.list(three))


def test_nested_indexes_have_a_number_limit(tmp_path: Path) -> None:
    registry = Listing()
    aliens = [registry.list((registry.image(f"alien{number}"), f"alien{number}")) for number in range(100)]
    image_here = registry.list((registry.image(HERE), HERE))
    assert "none of 24 manifests in its lists" in registry.pulled(tmp_path, registry.list(*aliens, image_here))
    assert registry.asked == 24


def test_a_registry_that_sends_another_index_is_an_error(tmp_path: Path) -> None:
    registry = Listing()
    inner = registry.list((registry.image(HERE), HERE))
    top = registry.list(inner)
    registry.blobs[inner] += b" "
    assert registry.pulled(tmp_path, top) == f"the registry sent another document for docker.io/a/b@{inner}"


class Slow(Transport):
    """Registries that do not answer until the test sets `go`."""

    def __init__(self) -> None:
        super().__init__("/none")
        self.asked, self.go = threading.Semaphore(0), threading.Event()

    def manifest(self, source: str, *_: object, **__: object) -> bytes:
        self.asked.release()
        assert self.go.wait(30)
        raise NotFound("image", source)


def test_a_pull_that_waits_too_long_fails_with_the_names_of_the_slow_pulls(root: Path) -> None:
    slow = Slow()
    store = ImageStore(root, slow, driver="copy")

    def pull(name: str) -> None:
        with pytest.raises(NotFound):
            store.pull(name)

    threads = [threading.Thread(target=pull, args=(f"r{number}.example/slow:1",)) for number in range(4)]
    for thread in threads:
        thread.start()
        assert slow.asked.acquire(timeout=30)
    store.wait_s = 0.01
    with pytest.raises(TooMany, match=r"too many pulls to start .*/fast:1.*r0.*, r3\.example/slow:1: at most 4"):
        store.pull("fast:1")
    slow.go.set()
    for thread in threads:
        thread.join()
    pull("fast:1")
