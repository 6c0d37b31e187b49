"""The options that give an agent its settings; tests/unit/cli/support/test_settings_options.py has more of them."""

from nri.cli.settings import Settings
from nri.cli.support.agent.options import AGENT_OPTIONS


def test_modes_are_words_between_commas_and_a_path_makes_files_the_source() -> None:
    options = {"files": ("/dev/null",), "given": (), "set_mode": "nri, standalone,", "set_rules": "/r"}
    made = AGENT_OPTIONS.load(Settings(), options).settings
    assert made.modes == ("nri", "standalone")
    assert (made.rules.source, str(made.rules.path)) == ("files", "/r")
