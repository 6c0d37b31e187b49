import inspect

import pytest

from nri.adaptation import Adaptation, AdaptationSettings


def test_default_settings_equal_the_defaults_of_an_adaptation() -> None:
    defaults = {name: one.default for name, one in inspect.signature(Adaptation).parameters.items()}
    arguments = AdaptationSettings(admin_socket="").arguments()
    assert arguments == {name: defaults[name] for name in arguments}


def test_empty_settings_are_none_for_an_adaptation() -> None:
    arguments = AdaptationSettings(admin_socket="", policy_path="").arguments()
    assert (arguments["admin_socket"], arguments["policy_path"]) == (None, None)


@pytest.mark.parametrize("key", ["plugin_registration_timeout", "plugin_request_timeout"])
def test_a_timeout_of_zero_is_an_error_with_its_name(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} 0 s is too short for a timeout; write 1ms or more"):
        AdaptationSettings(**{key: 0.0})  # type: ignore[arg-type]
