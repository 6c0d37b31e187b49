"""Options that give an agent its settings."""

from pathlib import Path

import pytest

from nri.cli.settings import Settings
from nri.cli.support.agent.options import flags_of, load
from nri.errors import ConfigError


def test_each_flag_sets_its_key_and_is_its_place(tmp_path: Path) -> None:
    settings = Settings()
    settings.socket_path, settings.socket_from = "/n", "--socket-path"
    options = {
        "files": ("/dev/null",),
        "given": ("nri.index=07", "gates.Resctrl=true"),
        "modes": "nri, standalone,",
        "rules_path": "/rules",
        "pods_path": None,
        "root": str(tmp_path),
    }
    loaded = load(settings, options)
    assert loaded.settings.modes == ("nri", "standalone")
    assert (loaded.settings.rules.source, str(loaded.settings.rules.path)) == ("files", "/rules")
    assert (loaded.settings.nri.index, loaded.settings.gates) == ("07", {"Resctrl": True})
    assert loaded.origins["rules.path"] == "--rules"
    assert loaded.origins["nri.socket"] == "--socket-path"
    assert loaded.origins["nri.index"] == "--set"


def test_a_set_that_is_none_is_refused_with_an_example() -> None:
    with pytest.raises(ConfigError, match=r"such as --set nri.index=10"):
        flags_of(Settings(), {"given": ("nri.index",)})
