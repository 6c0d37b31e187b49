"""The configuration of an image, in the forms in which tools print it."""

import json

import pytest

from nri.errors import ConfigError
from nri.kube.image_config import ImageConfig, read_image_config


@pytest.mark.parametrize(
    "wrap", [lambda c: {"config": c}, lambda c: [{"Config": c}], lambda c: c], ids=["oci", "docker inspect", "bare"]
)
def test_an_images_configuration_is_read_in_its_usual_forms(wrap, tmp_path):
    path = tmp_path / "image.json"
    path.write_text(json.dumps(wrap({"Env": ["A=1"], "Entrypoint": ["/e"], "Cmd": None})))
    assert read_image_config(str(path)) == ImageConfig(("A=1",), ("/e",), ())


def test_what_is_not_an_images_configuration_is_refused(tmp_path):
    path = tmp_path / "image.json"
    path.write_text('{"config": []}')
    with pytest.raises(ConfigError, match="not the configuration of an image"):
        read_image_config(str(path))


def test_a_list_that_is_none_is_refused_with_its_key(tmp_path):
    path = tmp_path / "image.json"
    path.write_text('{"config": {"Env": "A=1"}}')
    with pytest.raises(ConfigError, match="Env: expected a list"):
        read_image_config(str(path))
