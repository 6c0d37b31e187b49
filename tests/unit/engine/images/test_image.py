"""An image as the store gives it out."""

from nri.engine.images.image import Image


def test_what_a_configuration_does_not_say_is_empty_and_never_none() -> None:
    for config in ({}, dict.fromkeys(("User", "Entrypoint", "Cmd", "Env", "WorkingDir", "StopSignal", "Labels"))):
        image = Image("sha256:a", config=config)
        assert (image.user, image.working_dir, image.stop_signal) == ("", "", "")
        assert (image.entrypoint, image.cmd, image.env, image.labels) == ([], [], [], {})


def test_what_is_given_out_is_a_copy() -> None:
    image = Image("sha256:a", config={"Cmd": ["sh"], "Env": ["A=1"], "Labels": {"a": "b"}, "User": "1:2"})
    image.cmd.append("-c")
    image.env.clear()
    image.labels["c"] = "d"
    assert (image.cmd, image.env, image.labels, image.user) == (["sh"], ["A=1"], {"a": "b"}, "1:2")
