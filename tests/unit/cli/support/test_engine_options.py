"""Options that give an engine its settings."""

from pathlib import Path

from nri.cli.settings import Settings
from nri.cli.support.engine_options import load


def test_flags_and_the_global_socket_become_settings(tmp_path: Path) -> None:
    settings = Settings()
    settings.socket_path, settings.socket_from = "/n", "--socket-path"
    file = tmp_path / "e.toml"
    file.write_text("")
    loaded = load(
        settings, {"files": (str(file),), "socket": "/s", "given": ("nri.disable=true", "conmon=/c"), "dry": None}
    )
    assert loaded.origins == {
        "nri.disable": "--set",
        "conmon": "--set",
        "socket": "--socket",
        "nri.socket_path": "--socket-path",
    }


def test_a_dry_engine_has_all_its_files_in_one_folder(tmp_path: Path) -> None:
    options = {"files": (), "socket": None, "given": ("nri.policy_path=",), "dry": str(tmp_path)}
    config = load(Settings(), options).config
    assert config.dry
    assert [path for path in (config.root, config.state, config.socket) if path.parent != tmp_path] == []
    assert (config.nri.admin_socket, config.nri.policy_path) == (f"{tmp_path}/admin.sock", "")
