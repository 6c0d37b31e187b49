"""Layers that images share: copied and unpacked once, merged as umoci merges them, removed with their last image."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import stat
import subprocess
import tarfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from nri.engine.config import Registry
from nri.engine.images import ImageStore, RegistryRules, Transport, layers, snapshots
from nri.engine.images.layers import chain_ids
from nri.engine.images.overlay import MAX_LAYERS, Stack, mount_overlay
from nri.engine.support.command import Output
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.engine.support.kernel import unmount
from nri.files import usage
from tests.engine.machine import Machine
from tests.support.layout_registry import LayoutRegistry
from tests.support.needs import need, need_tool
from tests.support.oci_layouts import digest, layer, layout

BASE = layer({"etc": None, "etc/passwd": b"base:x:7:7::/:\n", "big": bytes(300_000)})
MIDDLE = layer({"etc/middle": b"m"})
FIRST, SECOND = layer({"first": b"1" * 50_000}), layer({"second": b"2" * 60_000})


class CountingRegistry(LayoutRegistry):
    """Also notes the blobs that are downloaded."""

    def __init__(self) -> None:
        super().__init__()
        self.downloads: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request of the distribution API, a blob only when the gate is open."""
        if "/blobs/" in request.path and request.command == "GET":
            self.downloads.append(request.path.rpartition("/")[2])
            assert self.gate.wait(60)
        super().answer(request)


@pytest.fixture
def registry() -> Iterator[CountingRegistry]:
    with CountingRegistry() as counting:
        yield counting


@pytest.fixture
def store(machine: Machine, registry: CountingRegistry) -> ImageStore:
    return opened(machine.folder / "images", registry.host)


def opened(root: Path, host: str = "localhost:1", driver: str = "auto") -> ImageStore:
    need_tool("umoci")
    return ImageStore(
        root, Transport(need_tool("skopeo"), RegistryRules([Registry(host, insecure=True)])), driver=driver
    )


def pushed(registry: LayoutRegistry, folder: Path, name: str, *contents: bytes, **options: object) -> str:
    return registry.push(f"{name}:1", layout(folder / name, contents, **options))  # type: ignore[arg-type]


def layer_folders(store: ImageStore) -> set[str]:
    return {path.name for path in (store.root / "layers").iterdir()} - {"empty"}


def chain(*contents: bytes) -> set[str]:
    return {chain_id.partition(":")[2] for chain_id in chain_ids([digest(content) for content in contents])}


def disk_bytes(store: ImageStore) -> int:
    """The disk space of the files of all layers, counted on the disk."""
    folders = [store.root / "layers" / name / "fs" for name in layer_folders(store)]
    return sum(usage(folder).size_bytes for folder in folders)


def test_an_image_copies_and_unpacks_only_the_layers_that_no_image_has(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path
) -> None:
    first = store.pull(pushed(registry, tmp_path, "first", BASE, MIDDLE, FIRST))
    assert len(registry.downloads) == 4, "three layers and the configuration"
    registry.downloads.clear()
    second = store.pull(pushed(registry, tmp_path, "second", BASE, MIDDLE, SECOND))
    assert len(registry.downloads) == 2, "one layer and the configuration"
    assert layer_folders(store) == chain(BASE, MIDDLE, FIRST) | chain(BASE, MIDDLE, SECOND)
    assert store.fs_info().size_bytes == disk_bytes(store) < first.size_bytes + second.size_bytes - 300_000
    assert min(first.size_bytes, second.size_bytes) > 350_000
    for image, name in ((first, "first"), (second, "second")):
        root = store.mount(image, name)
        assert sorted(path.name for path in root.iterdir()) == sorted(["big", "etc", name])
        assert store.accounts(image) == ("base:x:7:7::/:\n", "")
    assert opened(store.root, registry.host).complaints == []
    for name in ("first", "second"):
        store.unmount(name)


def test_an_image_whose_layers_all_exist_copies_only_its_configuration(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path
) -> None:
    store.pull(pushed(registry, tmp_path, "first", BASE, MIDDLE))
    registry.downloads.clear()
    other = store.pull(pushed(registry, tmp_path, "other", BASE, MIDDLE, config={"User": "7"}))
    assert (len(registry.downloads), other.user) == (1, "7")
    assert layer_folders(store) == chain(BASE, MIDDLE)
    below = store.pull(pushed(registry, tmp_path, "below", BASE))
    assert (len(registry.downloads), below.size_bytes < other.size_bytes) == (2, True)


def test_layers_are_found_again_after_a_restart_and_for_archives(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path
) -> None:
    store.load(layout(tmp_path / "archive", [BASE, MIDDLE]), "archive:1")
    reopened_store = opened(store.root, registry.host)
    reopened_store.pull(pushed(registry, tmp_path, "first", BASE, MIDDLE, FIRST))
    assert len(registry.downloads) == 2
    assert layer_folders(reopened_store) == chain(BASE, MIDDLE, FIRST)


def test_layers_stay_as_long_as_an_image_or_a_container_uses_them(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path
) -> None:
    first = store.pull(pushed(registry, tmp_path, "first", BASE, FIRST))
    second = store.pull(pushed(registry, tmp_path, "second", BASE, SECOND))
    root = store.mount(first, "c1")
    store.remove(first.id)
    assert layer_folders(store) == chain(BASE, FIRST) | chain(BASE, SECOND)
    assert (root / "first").exists()
    reopened_store = opened(store.root, registry.host)
    assert layer_folders(reopened_store) == chain(BASE, FIRST) | chain(BASE, SECOND)
    reopened_store.unmount("c1")
    assert layer_folders(reopened_store) == chain(BASE, SECOND)
    reopened_store.remove(second.id)
    assert (layer_folders(reopened_store), reopened_store.fs_info()) == (set(), (0, 0, True))


def test_a_pull_waits_for_another_that_copies_the_same_layer(
    store: ImageStore, registry: CountingRegistry, machine: Machine, tmp_path: Path
) -> None:
    names = [pushed(registry, tmp_path, name, BASE, content) for name, content in (("a", FIRST), ("b", SECOND))]
    registry.gate.clear()
    threads = [threading.Thread(target=store.pull, args=(name,)) for name in names]
    threads[0].start()
    machine.wait_for(lambda: bool(registry.downloads), "the first copy")
    threads[1].start()
    machine.wait_for(lambda: len([*(store.root / "pulls").iterdir()]) == 2, "the second pull")
    registry.gate.set()
    for thread in threads:
        thread.join()
    blobs = [blob for blob in registry.downloads if blob == registry_blob(registry, names[0], 0)]
    assert (len(blobs), len(store.list())) == (1, 2)


def test_a_registry_that_is_slow_on_purpose_does_not_delay_pulls_of_the_same_layer_or_image(
    registry: CountingRegistry, machine: Machine, tmp_path: Path
) -> None:
    with CountingRegistry() as slow:
        rules = RegistryRules([Registry(host, insecure=True) for host in (registry.host, slow.host)])
        store = ImageStore(machine.folder / "images", Transport(need_tool("skopeo"), rules))
        store.shared_wait_s = 0.1
        same = pushed(slow, tmp_path, "app", BASE, FIRST)
        slow.gate.clear()
        thread = threading.Thread(target=store.pull, args=(same,))
        thread.start()
        try:
            machine.wait_for(lambda: bool(slow.downloads), "the slow copy")
            names = [pushed(registry, tmp_path, "other", BASE, SECOND), pushed(registry, tmp_path, "app", BASE, FIRST)]
            for name in names:
                assert store.pull(name).repo_tags == (name,)
            mounted = store.mount(store.get(names[1]), "c1")
            assert thread.is_alive() and sorted(path.name for path in mounted.iterdir()) == ["big", "etc", "first"]
        finally:
            slow.gate.set()
            thread.join()
        assert len(store.get(names[1]).repo_tags) == 2 and layer_folders(store) == chain(BASE, FIRST) | chain(
            BASE, SECOND
        )
        assert sorted(path.name for path in mounted.iterdir()) == ["big", "etc", "first"]
        store.unmount("c1")


def test_an_image_that_is_removed_at_the_end_of_its_pull_is_pulled_again(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, removed = layers.Layers.remove_unused, list[str]()

    def remove_first(self: layers.Layers, used: Collection[str]) -> list[str]:
        if not removed:
            removed.append(store.list()[0].id)
            store.remove(removed[0])
        return real(self, used)

    monkeypatch.setattr(layers.Layers, "remove_unused", remove_first)
    name = pushed(registry, tmp_path, "a", BASE, FIRST)
    image = store.pull(name)
    assert (removed, [*store.list()], image.repo_tags) == ([image.id], [image], (name,))
    assert image.size_bytes == disk_bytes(store)
    store.mount(image, "c1")
    store.unmount("c1")


def registry_blob(registry: LayoutRegistry, name: str, number: int) -> str:
    manifest = json.loads(registry.tags[name.partition("/")[2]][1])
    return str(manifest["layers"][number]["digest"])


# --- what layers may contain --------------------------------------------------------------------------------------


@dataclass
class Row:
    """An entry of a layer."""

    name: str
    kind: bytes = tarfile.REGTYPE
    content: str = ""
    mode: int = 0o755
    owner: int = 0
    attributes: dict[str, str] = field(default_factory=dict)
    device: tuple[int, int] = (0, 0)


def layer_of(*rows: Row) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for row in rows:
            entry = tarfile.TarInfo(row.name)
            entry.type, entry.mode, entry.uid, entry.gid, entry.mtime = row.kind, row.mode, row.owner, row.owner, 10**9
            entry.pax_headers = {f"SCHILY.xattr.{key}": value for key, value in row.attributes.items()}
            entry.devmajor, entry.devminor = row.device
            if row.kind == tarfile.REGTYPE:
                entry.size = len(row.content)
            else:
                entry.linkname = row.content
            archive.addfile(entry, io.BytesIO(row.content.encode()) if row.kind == tarfile.REGTYPE else None)
    return buffer.getvalue()


FOLDER, LINK, HARD_LINK, CHARACTER, PIPE = (
    tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE,
)  # fmt: skip
#: version 2 of the attribute, permitted and effective: CAP_NET_RAW
CAPABILITY = "\x01\x00\x00\x02\x00\x20\x00\x00" + "\x00" * 12
LOWER = layer_of(
    Row("./", FOLDER, mode=0o751, owner=3), Row("etc", FOLDER, mode=0o711, owner=5), Row("etc/a", owner=7, content="a"),
    Row("etc/b", content="b", mode=0o4755, owner=9), Row("usr/lib", FOLDER), Row("usr/lib/x", content="x"),
    Row("lib", LINK, "usr/lib"), Row("opaque", FOLDER), Row("opaque/one"), Row("opaque/deep", FOLDER),
    Row("opaque/deep/two"), Row("replaced", FOLDER), Row("replaced/by-file"), Row("file", content="file"),
    Row("away", FOLDER, mode=0o700), Row("away/in"),
    Row("ping", mode=0o755, attributes={"security.capability": CAPABILITY}),
    Row("noted", attributes={"user.note": "kept"}), Row("null", CHARACTER, device=(1, 3)), Row("pipe", PIPE),
    Row("escape", LINK, "/tmp/../../outside"), Row("linked", content="linked"), Row("linked-too", HARD_LINK, "linked"),
    Row("sticky", FOLDER, mode=0o1777),
)  # fmt: skip
UPPER = layer_of(
    Row("etc/.wh.a"), Row("etc/c", content="c", mode=0o2755), Row("lib/new", content="through a link"),
    Row("opaque/.wh..wh..opq"), Row("opaque/three"), Row(".wh.replaced"), Row("replaced", content="a file now"),
    Row(".wh.file"), Row("file", FOLDER), Row("file/in-folder"), Row(".wh.away"), Row("etc/b-too", HARD_LINK, "etc/b"),
    Row("escape/inside", content="inside"), Row(".wh.missing"), Row("linked", content="changed"),
    Row("evil", FOLDER, attributes={"trusted.overlay.opaque": "y", "trusted.overlay.redirect": "/etc"}),
    Row("sticky/new", FOLDER, mode=0o750, owner=11),
)  # fmt: skip
TOP = layer_of(Row("away", FOLDER), Row("away/again"), Row("opaque/deep", FOLDER), Row(".wh.null"), Row(".wh.lib"))


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """All files with what a container sees of them."""
    rows, linked = dict[str, tuple[object, ...]](), dict[int, list[str]]()
    for folder, folders, files in os.walk(root):
        for path in (Path(folder), *(Path(folder, name) for name in (*folders, *files))):
            status = path.lstat()
            content: object = None
            if stat.S_ISREG(status.st_mode):
                content = path.read_bytes(), int(status.st_mtime)
                linked.setdefault(status.st_ino, []).append(path.name)
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            attributes = {name: os.getxattr(path, name, follow_symlinks=False)
                          for name in os.listxattr(path, follow_symlinks=False)}  # fmt: skip
            row = (oct(status.st_mode), status.st_uid, status.st_gid, status.st_rdev, content, attributes)
            rows[str(path.relative_to(root))] = row
    rows["links"] = tuple(sorted(tuple(sorted(names)) for names in linked.values()))
    return rows


def test_merged_layers_are_what_umoci_makes_of_all_layers_in_one_folder(machine: Machine, tmp_path: Path) -> None:
    source = layout(tmp_path / "layout", [LOWER, UPPER, TOP])
    trees = []
    for driver in ("copy", "overlay"):
        store = opened(machine.folder / driver, driver=driver)
        trees.append(tree(store.mount(store.load(source, "a:1"), "c1")))
        assert layer_folders(store) == (chain(LOWER, UPPER, TOP) if driver == "overlay" else set())
        store.unmount("c1")
    copied, merged = trees
    assert merged == copied
    assert {"etc/a", "null", "lib", "opaque/one", "away/in", "opaque/deep/two"}.isdisjoint(merged)
    assert {"usr/lib/new", "outside/inside", "away/again", "file/in-folder"} <= merged.keys()
    assert merged["ping"][5] == {"security.capability": CAPABILITY.encode("latin-1")}
    assert merged["noted"][5] == {"user.note": b"kept"}
    assert not Path("/outside").exists()


@pytest.mark.parametrize("device", [(0, 0), (1, 3)])
def test_a_device_in_a_layer_does_not_hide_files_of_other_layers(
    machine: Machine, tmp_path: Path, device: tuple[int, int]
) -> None:
    """A character device with the numbers 0, 0 would be overlayfs's mark of a removed file."""
    store = opened(machine.folder / "images", driver="overlay")
    source = layout(tmp_path / "layout", [LOWER, layer_of(Row("etc/a", CHARACTER, device=device))])
    if device == (0, 0):
        with pytest.raises(EngineError, match=r"etc/a"):
            store.load(source, "a:1")
        assert layer_folders(store) == set()
        return
    assert stat.S_ISCHR((store.mount(store.load(source, "a:1"), "c1") / "etc/a").lstat().st_mode)
    store.unmount("c1")


def test_very_many_layers_are_mounted_although_their_paths_are_longer_than_the_kernel_takes(machine: Machine) -> None:
    root, target = machine.folder / "layers", machine.folder / "merged"
    names = [f"{number:064}/fs" for number in range(MAX_LAYERS)]
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / f"f{name[61:64]}").touch()
        (root / name / "last").write_text(name)
    for name in ("upper", "work", "merged"):
        (machine.folder / name).mkdir()
    mount_overlay(target, Stack(root, names), machine.folder / "upper", machine.folder / "work")
    try:
        assert len([*target.iterdir()]) == MAX_LAYERS + 1
        assert (target / "last").read_text() == names[-1]
    finally:
        unmount(target)


def test_an_image_of_too_many_layers_is_one_folder(machine: Machine, tmp_path: Path) -> None:
    store = opened(machine.folder / "images", driver="overlay")
    contents = [layer({f"f{index}": b""}) for index in range(MAX_LAYERS + 1)]
    image = store.load(layout(tmp_path / "layout", contents), "many:1")
    assert (len([*store.mount(image, "c1").iterdir()]), layer_folders(store)) == (MAX_LAYERS + 1, set())
    store.unmount("c1")


# --- lies ---------------------------------------------------------------------------------------------------------


def test_a_manifest_with_known_layers_and_another_configuration_is_refused(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path
) -> None:
    good = store.pull(pushed(registry, tmp_path, "good", BASE, MIDDLE))
    ids = [digest(BASE), digest(FIRST)]
    evil = pushed(registry, tmp_path, "evil", BASE, MIDDLE, diff_ids=ids)
    with pytest.raises(InvalidRequest, match=r"evil:1: its layers differ from those in its configuration"):
        store.pull(evil)
    worse = pushed(registry, tmp_path, "worse", BASE, SECOND, diff_ids=ids)
    with pytest.raises(EngineError, match=r"worse:1: unpacking its layers.*diffid|digest"):
        store.pull(worse)
    assert (list(store.list()), layer_folders(store)) == ([good], chain(BASE, MIDDLE))


def test_a_layer_that_was_changed_on_its_way_is_not_kept(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path
) -> None:
    name = pushed(registry, tmp_path, "a", BASE, FIRST)
    blob = registry_blob(registry, name, 1)
    registry.blobs[blob] = registry.blobs[blob][:-1] + b"x"
    with pytest.raises(EngineError, match=r"Digest did not match"):
        store.pull(name)
    assert (list(store.list()), layer_folders(store), [*(store.root / "pulls").iterdir()]) == ([], set(), [])


# --- stores of other versions and settings ------------------------------------------------------------------------


def old_image(store: ImageStore, folder: Path) -> str:
    """Load an image as a whole, with a record as earlier versions write it."""
    image = opened(store.root, driver="copy").load(layout(folder, [BASE, MIDDLE]), "old:1")
    path = store.root / "images" / image.id[7:] / "image.json"
    row = json.loads(path.read_text())
    assert row.pop("chain_ids") is None
    path.write_text(json.dumps(row))
    return image.id


def test_images_of_earlier_versions_stay_usable_next_to_images_with_layers(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path
) -> None:
    old = old_image(store, tmp_path / "old")
    reopened_store = opened(store.root, registry.host)
    assert reopened_store.complaints == []
    name = pushed(registry, tmp_path, "new", BASE, MIDDLE, FIRST)
    new = reopened_store.pull(name)
    for image_id in (old, new.id):
        root = reopened_store.mount(reopened_store.get(image_id), image_id[7:])
        assert (root / "etc/middle").read_text() == "m"
        assert reopened_store.accounts(reopened_store.get(image_id))[0].startswith("base:")
    assert reopened_store.fs_info().size_bytes == disk_bytes(reopened_store) + reopened_store.get(old).size_bytes
    registry.downloads.clear()
    assert reopened_store.pull(pushed(registry, tmp_path, "same", BASE, MIDDLE)).id == old
    assert registry.downloads == []
    for image_id in (old, new.id):
        reopened_store.unmount(image_id[7:])
        reopened_store.remove(image_id)
    assert (layer_folders(reopened_store), reopened_store.fs_info()) == (set(), (0, 0, True))


def test_an_image_with_layers_is_copied_for_each_container_if_the_setting_changes(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path
) -> None:
    image = store.pull(pushed(registry, tmp_path, "a", LOWER, UPPER, TOP))
    overlay = tree(store.mount(image, "c1"))
    store.unmount("c1")
    copying = opened(store.root, registry.host, driver="copy")
    root = copying.mount(image, "c1")
    assert not os.path.ismount(root) and tree(root) == overlay
    copying.unmount("c1")
    assert [*(store.root / "snapshots").iterdir()] == []


@pytest.mark.parametrize("fails", [False, True])
def test_an_image_that_is_removed_while_it_is_copied_for_a_container_stays_until_the_copy_ends(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    image = store.pull(pushed(registry, tmp_path, "a", BASE, FIRST))
    copying, real = opened(store.root, registry.host, driver="copy"), snapshots.run

    def remove_first(argv: Sequence[str], *, timeout_s: float, action: str) -> Output:
        copying.remove(image.id)
        assert [*copying.list()] == []
        if fails:
            raise EngineError("no space left")
        return real(argv, timeout_s=timeout_s, action=action)

    monkeypatch.setattr(snapshots, "run", remove_first)
    if fails:
        with pytest.raises(EngineError, match="no space left"):
            copying.mount(image, "c1")
    else:
        assert sorted(path.name for path in copying.mount(image, "c1").iterdir()) == ["big", "etc", "first"]
        assert layer_folders(copying) == chain(BASE, FIRST)
        copying.unmount("c1")
    assert (layer_folders(copying), copying.fs_info()) == (set(), (0, 0, True))


def test_a_container_whose_copy_of_layers_was_killed_can_be_removed(machine: Machine, tmp_path: Path) -> None:
    root = machine.folder / "images"
    image = opened(root).load(layout(tmp_path / "a", [BASE, FIRST]), "a:1")

    def copy() -> None:
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, "snapshots.run", 1, before=True)
            opened(root, driver="copy").mount(image, "c1")

    assert is_killed(copy)
    store = opened(root, driver="copy")
    store.unmount("c1")
    assert [*(root / "snapshots").iterdir()] == []
    assert str(root) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("driver", ["overlay", "copy"])
def test_the_files_of_an_image_are_on_the_disk_when_its_pull_ends(
    machine: Machine, tmp_path: Path, driver: str
) -> None:
    disk, copy = machine.folder / "disk", machine.folder / "copy"
    with disk.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run([need_tool("mkfs.ext4"), "-q", "-m", "0", disk], check=True, timeout=60)
    with mounted_disk(disk, machine.folder / "m") as folder:
        image = opened(folder / "images", driver=driver).load(layout(tmp_path / "a", [BASE, FIRST]), "a:1")
        subprocess.run(["cp", "--sparse=always", disk, copy], check=True)  # what is left after a power failure
    with mounted_disk(copy, machine.folder / "n") as folder:
        store = opened(folder / "images", driver=driver)
        assert (store.complaints, [*store.list()]) == ([], [image])
        top = store.mount(image, "c1")
        assert (len((top / "big").read_bytes()), (top / "first").read_bytes()) == (300_000, b"1" * 50_000)
        store.unmount("c1")


@contextmanager
def mounted_disk(disk: Path, point: Path) -> Iterator[Path]:
    """Mount a file with a file system inside the block."""
    point.mkdir()
    process = subprocess.run(["mount", "-o", "loop", disk, point], check=False, capture_output=True, text=True)
    need(process.returncode == 0, f"loop devices ({process.stderr.strip()})")
    try:
        yield point
    finally:
        subprocess.run(["umount", "-l", point], check=True)


# --- kills --------------------------------------------------------------------------------------------------------

#: The calls of `layers` that change the disk, and the store's own.
CALLS = ("layers.mount_overlay", "layers.unmount", "layers.write_whole", "layers.rename_into", "layers.remove_tree",
         "store.write_whole", "store.rename_into", "store.remove_tree", "store.unpack")  # fmt: skip


def kill_at(monkeypatch: pytest.MonkeyPatch, call: str, number: int, *, before: bool) -> None:
    """Have this process killed at the n-th call of a function of the engine's modules for images."""
    import importlib

    module_name, _, function = call.partition(".")
    module = importlib.import_module(f"nri.engine.images.{module_name}")
    real, count = getattr(module, function), 0

    def counting(*arguments: object, **options: object) -> object:
        nonlocal count
        count += 1
        if before and count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **options)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    monkeypatch.setattr(module, function, counting)


def is_killed(work: Callable[[], object]) -> bool:
    """Run `work` in a separate process. Returns whether it was killed instead of ending."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:  # the child must not return into pytest
            print(repr(error))
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("call", CALLS)
def test_a_kill_loses_no_layer_and_leaves_none_without_an_image(machine: Machine, tmp_path: Path, call: str) -> None:
    root = machine.folder / "images"
    base, other = layout(tmp_path / "base", [BASE, FIRST]), layout(tmp_path / "other", [BASE, MIDDLE, SECOND])
    opened(root).load(base, "base:1")

    def life(number: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            store = opened(root)
            kill_at(patch, call, (number + 1) // 2, before=bool(number % 2))
            store.remove(store.load(other, "other:1").id)

    number = 1
    while is_killed(partial(life, number)):
        store = opened(root)
        assert store.complaints == []
        assert "base:1" in {name.rpartition("/")[2] for image in store.list() for name in image.repo_tags}
        for image in store.list():
            names = {path.name for path in store.mount(image, "c1").iterdir()}
            assert "big" in names and (("first" in names) != ("second" in names))
            store.unmount("c1")
        by_id = {chain_id for image in store.list() for chain_id in image.chain_ids or ()}
        assert {f"sha256:{name}" for name in layer_folders(store)} == by_id
        assert [*(root / "pulls").iterdir()] == [] and store.fs_info().size_bytes == disk_bytes(store)
        assert str(root) not in Path("/proc/self/mountinfo").read_text()
        for image in store.list()[:-1]:
            store.remove(image.id)
        assert layer_folders(store) == chain(BASE, FIRST)
        number += 1
    assert number > 1, "the call was never made"


def test_a_layer_without_a_record_is_removed_and_one_that_an_image_lacks_is_named(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path
) -> None:
    image = store.pull(pushed(registry, tmp_path, "a", BASE, FIRST))
    top = store.root / "layers" / image.chain_ids[-1][7:]  # type: ignore[index]
    shutil.copytree(top, top.with_name("0" * 64))
    (top.with_name("0" * 64) / "layer.json").unlink()
    reopened_store = opened(store.root)
    assert reopened_store.complaints == []
    assert (layer_folders(reopened_store), list(reopened_store.list())) == (chain(BASE, FIRST), [image])
    (top / "layer.json").write_text("{")
    reopened_store = opened(store.root)
    (complaint,) = reopened_store.complaints
    assert "is missing; the image was removed and has to be pulled again" in complaint
    assert (list(reopened_store.list()), layer_folders(reopened_store)) == ([], set())


def test_a_layer_that_cannot_be_removed_is_unpacked_anew(
    store: ImageStore, registry: CountingRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pushed(registry, tmp_path, "a", BASE, FIRST)
    image = store.pull(name)

    def fail(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(layers, "remove_tree", fail)
        with pytest.raises(EngineError, match=r"is not removed: .*Input/output error"):
            store.remove(image.id)
        assert store.fs_info().size_bytes == image.size_bytes
    with pytest.raises(EngineError, match="only partly removed"):
        store.mount(image, "c1")
    registry.downloads.clear()
    assert store.pull(name).id == image.id
    assert len(registry.downloads) == 2, "the layer whose record was deleted, and the configuration"
    assert subprocess.run(["ls", store.mount(image, "c1")], capture_output=True, check=True).stdout.split()[0] == b"big"
    store.unmount("c1")
