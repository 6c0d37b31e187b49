"""The engine's settings: defaults and contradictions."""

import dataclasses

import pytest

from nri import config
from nri.engine.config import EngineConfig, Registry
from nri.errors import ConfigError


def read(text: str) -> EngineConfig:
    return config.read(EngineConfig, [config.Source("engine.toml", text, "toml")])


def test_by_default_the_engine_has_runc_and_nri():
    engine_config = EngineConfig()
    assert engine_config.runtimes[engine_config.default_runtime].path == "runc"
    assert not engine_config.nri.disable
    assert engine_config.nri.plugin_request_timeout == 2.0
    assert engine_config == read("")


def test_tables_are_classes_and_durations_have_units():
    config_ = read('[runtimes.runc]\ntimeout = "5s"\n[[images.registries]]\nhost = "a"\nmirrors = ["b"]\n')
    assert config_.runtimes["runc"].timeout == 5.0
    assert config_.images.registries == (Registry("a", ("b",)),)


def test_an_unknown_default_runtime_is_an_error_with_the_known_runtimes():
    with pytest.raises(ConfigError, match='default_runtime "youki" is not among the configured runtimes: runc, crun'):
        read('default_runtime = "youki"')


def test_a_further_domain_has_its_socket_and_folders_below_the_engines():
    config_ = read('[domains.moby]\n[domains.other]\nsocket = "/run/o/cri.sock"\n[streaming]\nport = 7000')
    moby, other = config_.of_domain("moby"), config_.of_domain("other")
    assert (str(moby.socket), str(other.socket)) == ("/run/nri-engine/moby.sock", "/run/o/cri.sock")
    assert (moby.root, moby.state) == (config_.root / "domains/moby", config_.state / "domains/moby")
    assert (moby.domains, moby.streaming.port, moby.runtimes) == ({}, 0, config_.runtimes)
    dry = dataclasses.replace(config_, dry=True, socket=config_.root / "cri.sock").of_domain("other")
    assert dry.socket == config_.root / "other.sock", "all sockets of a dry engine are in its folder"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[domains."k8s.io"]', 'domains has "k8s.io", which is not a valid domain name'),
        ('[domains."../x"]', 'domains has "../x", which is not a valid domain name'),
        ('[domains.a]\nsocket = "a.sock"', 'domains.a.socket "a.sock" must be an absolute path'),
        (f'[domains.a]\nsocket = "/{"a" * 120}"', "exceeds 107 bytes"),
        ('[domains.a]\nsocket = "/run/nri-engine/engine.sock"', "socket and domains.a.socket must be different"),
    ],
)
def test_an_invalid_further_domain_is_refused(text: str, problem: str):
    with pytest.raises(ConfigError, match=problem):
        read(text)


@pytest.mark.parametrize("pattern", ["", "a*b", "*a", "a**"])
def test_an_invalid_pattern_of_pinned_images_is_refused(pattern: str):
    with pytest.raises(ConfigError, match=r"pinned_images .* must be a name"):
        read(f'[images]\npinned_images = ["{pattern}"]')


@pytest.mark.parametrize("value", [-1, 1, 8191])
def test_a_limit_of_logs_below_conmons_buffer_is_refused(value: int):
    with pytest.raises(ConfigError, match=f"log_size_max {value} must"):
        read(f"[containers]\nlog_size_max = {value}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('pod_annotations = ["a[b"]', r'pod_annotations "a\[b" must be a name'),
        ('container_annotations = [""]', 'container_annotations "" must be a name'),
        ('allowed_annotations = ["x"]', 'allowed_annotations "x" is not an annotation .*; known: .*Devices, '),
        ('default_capabilities = ["FLY"]', 'default_capabilities "FLY" is not a capability'),
        (
            "privileged_without_host_devices_all_devices_allowed = true",
            "all_devices_allowed requires privileged_without_host_devices = true",
        ),
    ],
)
def test_an_invalid_key_of_an_oci_runtime_is_refused(text: str, problem: str):
    with pytest.raises(ConfigError, match=problem):
        read(f"[runtimes.runc]\n{text}")


def test_an_allowed_device_is_an_absolute_path():
    with pytest.raises(ConfigError, match=r'allowed_devices "/dev/\.\./x" must be an absolute path'):
        read('[containers]\nallowed_devices = ["/dev/../x"]')


def test_settings_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EngineConfig().dry = True


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('default_sysctls = ["net.ipv4.ip_forward"]', 'default_sysctls "net.ipv4.ip_forward" must be NAME=VALUE'),
        ('default_sysctls = ["vm.swappiness=1"]', 'default_sysctls vm.swappiness: "1": is not a sysctl of a pod'),
        ('default_sysctls = ["net.x=a\\nb"]', "must be one line"),
        ('default_ulimits = ["nofile"]', 'default_ulimits "nofile" must be NAME=SOFT:HARD'),
        ('default_ulimits = ["files=1"]', 'default_ulimits "files=1" must be .*; names: .*core, '),
        ('default_ulimits = ["nofile=2:1"]', "the soft limit 2 exceeds the hard limit 1"),
        ('default_ulimits = ["nofile=-2"]', "must be NAME=SOFT:HARD"),
        ('default_env = ["A"]', 'default_env "A" must be NAME=VALUE'),
        ('default_env = ["=b"]', 'default_env "=b" must be NAME=VALUE'),
        ('default_capabilities = ["FLY"]', 'default_capabilities "FLY" is not a capability'),
        ('default_mounts = ["/a"]', 'default_mounts "/a" must be /HOST:/CONTAINER'),
        ('default_mounts = ["/a:/b:rw"]', 'default_mounts "/a:/b:rw" must be /HOST:/CONTAINER'),
        ('additional_devices = ["fuse"]', 'additional_devices "fuse" must be /dev/HOST'),
        ('additional_devices = ["/dev/fuse:/dev/x:q"]', "must be /dev/HOST"),
    ],
)
def test_an_invalid_default_of_containers_is_an_error_with_its_key(text: str, problem: str):
    with pytest.raises(ConfigError, match=problem):
        read(f"[containers]\n{text}")
