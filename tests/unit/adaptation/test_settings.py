import inspect

import pytest

from nri.adaptation import Adaptation, AdaptationSettings


def test_settings_as_they_come_are_the_defaults_of_an_adaptation_with_its_admin_socket_and_policy_file() -> None:
    defaults = {name: one.default for name, one in inspect.signature(Adaptation).parameters.items()}
    arguments = AdaptationSettings(admin_socket="").arguments()
    assert arguments == {name: defaults[name] for name in arguments}


def test_what_is_empty_is_none_for_an_adaptation() -> None:
    arguments = AdaptationSettings(admin_socket="", policy_path="").arguments()
    assert (arguments["admin_socket"], arguments["policy_path"]) == (None, None)


@pytest.mark.parametrize("key", ["plugin_registration_timeout", "plugin_request_timeout"])
def test_a_time_that_is_none_to_wait_is_refused_by_its_name(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} 0 s is too short for a timeout; write 1ms or more"):
        AdaptationSettings(**{key: 0.0})  # type: ignore[arg-type]
