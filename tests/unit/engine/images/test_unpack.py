"""OCI layouts that skopeo writes."""

import json
from pathlib import Path

import pytest

from nri.engine.images.unpack import read_layout, with_registry_config
from nri.engine.support.errors import EngineError, InvalidRequest
from tests.support.oci_layouts import digest, layer, layout

ONE, TWO = layer({"a": b"1"}), layer({"b": b"2"})


def test_a_layout_is_read_as_an_image(tmp_path: Path) -> None:
    layout(tmp_path, [ONE, TWO], config={"User": "1", "Env": ["A=1"], "Cmd": None})
    layout_image = read_layout(tmp_path, "x")
    assert layout_image.diff_ids == [digest(ONE), digest(TWO)]
    assert (layout_image.config["User"], layout_image.config["Env"], layout_image.config["Cmd"]) == ("1", ["A=1"], None)
    manifest = json.loads((tmp_path / "blobs/sha256" / layout_image.manifest_digest[7:]).read_bytes())
    assert manifest["config"]["digest"] == layout_image.id


@pytest.mark.parametrize(
    ("layers", "diff_ids", "problem"),
    [
        ([ONE], [digest(ONE), digest(TWO)], "its manifest has 1 layers, its configuration 2"),
        ([], [digest(ONE)], "its manifest has 0 layers, its configuration 1"),
        ([ONE, TWO], [digest(ONE)], "its manifest has 2 layers, its configuration 1"),
        ([ONE, ONE], [digest(ONE)], "its manifest has 2 layers, its configuration 1"),
        ([ONE], [], "its manifest has 1 layers, its configuration 0"),
        ([ONE], ["sha256:short"], r"rootfs.diff_ids\[0\] is 'sha256:short', which is not a digest"),
        ([ONE], [7], r"rootfs.diff_ids\[0\] is 7, which is not a digest"),
    ],
)
def test_layers_must_agree_with_the_configuration(
    tmp_path: Path, layers: list[bytes], diff_ids: list[object], problem: str
) -> None:
    layout(tmp_path, layers, diff_ids=diff_ids)
    with pytest.raises(InvalidRequest, match=f"image evil:1: {problem}"):
        read_layout(tmp_path, "evil:1")


def test_an_image_without_layers_is_accepted(tmp_path: Path) -> None:
    layout(tmp_path, [])
    assert read_layout(tmp_path, "x").diff_ids == []


def test_a_blob_with_a_wrong_digest_is_refused(tmp_path: Path) -> None:
    layout(tmp_path, [ONE])
    identity = read_layout(tmp_path, "x").id
    path = tmp_path / "blobs/sha256" / identity[7:]
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(InvalidRequest, match=f"{identity} has another digest"):
        read_layout(tmp_path, "x")
    path.unlink()
    with pytest.raises(EngineError, match=f"{identity} is missing in the pulled layout"):
        read_layout(tmp_path, "x")
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(EngineError, match="the image's layout cannot be read"):
        read_layout(tmp_path, "x")


def test_an_oversized_configuration_is_refused(tmp_path: Path) -> None:
    layout(tmp_path, [ONE], whole_config={"x": "y" * (4 << 20)})
    with pytest.raises(InvalidRequest, match="exceeds 4194304 bytes"):
        read_layout(tmp_path, "x")


def test_a_docker_image_keeps_its_id_if_its_layers_match(
    tmp_path: Path,
) -> None:
    layout(tmp_path, [ONE, TWO])
    layout_image = read_layout(tmp_path, "x")

    def original(*layers: bytes, **config: object) -> bytes:
        return json.dumps({"docker_version": "1", "rootfs": {"diff_ids": list(map(digest, layers))}, **config}).encode()

    raw = original(ONE, TWO, config={"User": "7"})
    pod_config = with_registry_config(layout_image, digest(raw), raw, "x")
    assert (pod_config.id, pod_config.config, pod_config.diff_ids) == (
        digest(raw),
        {"User": "7"},
        layout_image.diff_ids,
    )
    for layers in ((ONE,), (TWO, ONE), (), (ONE, TWO, TWO)):
        raw = original(*layers)
        with pytest.raises(InvalidRequest, match="its layers differ from those in its configuration"):
            with_registry_config(layout_image, digest(raw), raw, "x")
    with pytest.raises(InvalidRequest, match="has another digest"):
        with_registry_config(layout_image, digest(b"other"), raw, "x")
