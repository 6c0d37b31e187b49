"""Options that give an engine its settings."""

from pathlib import Path

from nri.cli.settings import Settings
from nri.cli.support.engine_options import load


def test_flags_and_the_global_socket_become_settings(tmp_path: Path) -> None:
    settings = Settings()
    settings.socket_path, settings.socket_from = "/n", "--socket-path"
    file = tmp_path / "e.toml"
    file.write_text("")
    loaded = load(settings, {"files": (str(file),), "socket": "/s", "given": ("nri.disable=true", "conmon=/c")})
    assert loaded.origins == {
        "nri.disable": "--set",
        "conmon": "--set",
        "socket": "--socket",
        "nri.socket_path": "--socket-path",
    }
