"""The result of reading a runtime's configuration."""

from __future__ import annotations

import dataclasses

import pytest

from nri.config.runtimes.reading import Draft, Kind, Remark, RuntimeNri


def test_a_draft_without_files_has_the_defaults() -> None:
    nri = Draft("containerd").finish()
    assert nri == RuntimeNri("containerd")
    assert (nri.socket_path, nri.plugin_path) == ("/var/run/nri/nri.sock", "/opt/nri/plugins")
    assert (nri.enabled, nri.connections, nri.registration_timeout_s, nri.request_timeout_s) == (None, True, 5.0, 2.0)


def test_a_later_setting_overrides_with_its_position() -> None:
    draft = Draft("cri-o", enabled=True)
    draft.put("enabled", False, "enable_nri", "a")
    draft.put("enabled", True, "enable_nri", "b")
    assert (draft.finish().enabled, draft.finish().origin) == (True, {"enable_nri": "b"})


def test_settings_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RuntimeNri("containerd").enabled = True  # type: ignore[misc]


def test_a_remark_is_one_line_for_a_log() -> None:
    remark = Remark(Kind.UNKNOWN_KEY, "/etc/x.toml:3: a.kay", {"key": "kay", "suggestion": 'did you mean "key"?'})
    expected = '/etc/x.toml:3: a.kay: the runtime does not know the key (key kay, suggestion did you mean "key"?)'
    assert str(remark) == expected
    assert str(Remark(Kind.NOT_IMPORTED, "/etc/y.toml")) == "/etc/y.toml: the file is not imported"
