"""Settings with which the CRI plugin does not load, one row each: the releases that refuse them, and the reason."""

from __future__ import annotations

import pytest

from nri.config.runtimes.containerd import judge, rules_of
from tests.support.memory_tree import MemoryTree

CONFIG = "/etc/containerd/config.toml"
RELEASES = {"1.7": "1.7.24", "2.1": "2.1.9", "2.2": "2.2.0", "2.3": "2.3.4", "2.4": "2.4.2"}
ALL, ONLY_1, SINCE_2, NONE = " ".join(RELEASES), "1.7", "2.1 2.2 2.3 2.4", ""
HEAD = 'version = 2\n[plugins."io.containerd.nri.v1.nri"]\ndisable = false\n'
CRI = '[plugins."io.containerd.grpc.v1.cri"'
RUNC = f"{CRI}.containerd.runtimes.runc]\n"
RUNC_2, SHIM_1 = 'runtime_type = "io.containerd.runc.v2"\n', 'runtime_type = "io.containerd.runtime.v1.linux"\n'
UNTRUSTED = f"{CRI}.containerd.untrusted_workload_runtime]\n"
CONFIG_PATH = f'{CRI}.registry]\nconfig_path = "/certs"\n'
TLS = f"{CRI}]\nenable_tls_streaming = true\n{CRI}.x509_key_pair_streaming]\n"
DEVMAPPER = f'{RUNC}{RUNC_2}{CRI}.containerd]\nsnapshotter = "devmapper"\n'
DEVMAPPER_POOL = '[plugins."io.containerd.snapshotter.v1.devmapper"]\npool_name = "p"\n'
ALL_DEVICES = "privileged_without_host_devices_all_devices_allowed = true\n"


def refusals(text: str, sys_file: str = "/sys/fs/cgroup/memory/tasks") -> dict[str, str]:
    """Return why the CRI plugin does not load, by the series of releases."""
    files = {CONFIG: f"{HEAD}{text}".encode(), "/spec.json": b"{}", "/broken.json": b"{", sys_file: b""}
    tree = MemoryTree(files)
    reasons: dict[str, str] = {}
    for series, release in RELEASES.items():
        rules = rules_of(release)
        assert rules is not None
        judgement = judge(tree, rules)
        assert judgement.failure is None
        if judgement.obstacle is not None:
            assert judgement.obstacle.where.startswith(CONFIG)
            reasons[series] = judgement.obstacle.details["reason"]
    return reasons


@pytest.mark.parametrize(
    ("text", "releases", "reason"),
    [
        # Plugins that the CRI plugin needs.
        ('[plugins."io.containerd.metadata.v1.bolt"]\ncontent_sharing_policy = "isolated"\n', NONE, ""),
        ('[plugins."io.containerd.metadata.v1.bolt"]\ncontent_sharing_policy = "x"\n', ALL, 'policy "x" is unknown'),
        ('[plugins."io.containerd.snapshotter.v1.overlayfs"]\nroot_path = "/data"\n', NONE, ""),
        (f'[plugins."io.containerd.snapshotter.v1.overlayfs"]\nroot_path = "{CONFIG}"\n', ALL, "is not a folder"),
        (f'[plugins."io.containerd.snapshotter.v1.native"]\nroot_path = "{CONFIG}"\n', SINCE_2, "is not a folder"),
        ('[plugins."io.containerd.service.v1.diff-service"]\ndefault = ["walking"]\n', NONE, ""),
        (
            '[plugins."io.containerd.service.v1.diff-service"]\ndefault = ["a"]\n[proxy_plugins.a]\ntype = "diff"\n',
            NONE,
            "",
        ),
        ('[plugins."io.containerd.runtime.v2.task"]\nplatforms = ["linux/arm64/v8"]\n', NONE, ""),
        ('[plugins."io.containerd.runtime.v2.task"]\nplatforms = ["linux arm64"]\n', ALL, "is not a platform"),
        # Runtimes.
        (f'{CRI}.containerd]\ndefault_runtime_name = ""\n', ALL, "default_runtime_name is empty"),
        (
            f'{CRI}.containerd]\ndefault_runtime_name = ""\n{CRI}.containerd.default_runtime]\n{RUNC_2}',
            SINCE_2,
            "default_runtime_name is empty",
        ),
        (f"{UNTRUSTED}{RUNC_2}", NONE, ""),
        (f"{UNTRUSTED}{RUNC_2}{ALL_DEVICES}", ONLY_1, "requires privileged_without_host_devices"),
        (
            f"{UNTRUSTED}{RUNC_2}{RUNC}{RUNC_2}{CRI}.containerd.runtimes.untrusted]\n{RUNC_2}",
            ONLY_1,
            "untrusted is defined twice",
        ),
        (f"{CRI}]\nsystemd_cgroup = true\n", ONLY_1, "systemd_cgroup works with the runtime type"),
        (f"{CRI}.containerd]\nno_pivot = true\n", ONLY_1, "no_pivot works with the runtime type"),
        (f"{CRI}]\nsystemd_cgroup = true\n{RUNC}{SHIM_1}", NONE, ""),
        (f'{RUNC}{RUNC_2}runtime_engine = "crun"\n', ONLY_1, "runtime_engine works with the runtime type"),
        (f'{RUNC}{SHIM_1}runtime_engine = "crun"\nruntime_root = "/r"\n', NONE, ""),
        (f"{RUNC}{RUNC_2}{ALL_DEVICES}", ALL, "requires privileged_without_host_devices"),
        (f"{RUNC}{RUNC_2}{ALL_DEVICES}privileged_without_host_devices = true\n", NONE, ""),
        (f'{RUNC}{RUNC_2}io_type = "streaming"\n', NONE, ""),
        (f'{RUNC}{RUNC_2}io_type = "tcp"\n', SINCE_2, 'the io_type "tcp" is not fifo or streaming'),
        (f"{RUNC}{RUNC_2}cgroup_writable = true\n", SINCE_2, "works on cgroup v2 only"),
        (f'{RUNC}{RUNC_2}base_runtime_spec = "/spec.json"\n', NONE, ""),
        (f'{RUNC}{RUNC_2}base_runtime_spec = "/broken.json"\n', ALL, "/broken.json cannot be read"),
        (f'{RUNC}{RUNC_2}base_runtime_spec = "/none.json"\n', ALL, "/none.json cannot be read"),
        # Images, network and streams.
        (f"{CONFIG_PATH}{CRI}.registry.mirrors.a]\nendpoint = []\n", ALL, "mirrors and config_path"),
        (f'{CONFIG_PATH}{CRI}.registry.configs.a.tls]\nca_file = "/ca"\n', ONLY_1, "tls and config_path"),
        (f'{CONFIG_PATH}{CRI}.registry.configs.a.auth]\nusername = "x"\n', NONE, ""),
        (f'{CRI}.registry.auths."https://a"]\nusername = "x"\n', NONE, ""),
        (f'{CRI}.cni]\nbin_dir = "/a"\nbin_dirs = ["/b"]\n', SINCE_2, "bin_dir and bin_dirs"),
        (f'{CRI}]\nstream_idle_timeout = "4h"\n', NONE, ""),
        (f'{CRI}]\nstream_idle_timeout = "long"\n', ALL, '"long", which is not a duration'),
        (f'{TLS}tls_cert_file = "/c"\n', ALL, "tls_cert_file and tls_key_file are required together"),
        (f'{TLS}tls_cert_file = "/c"\ntls_key_file = "/k"\n', NONE, ""),
        # A snapshotter that loads only with its own setting.
        (DEVMAPPER, ALL, '"devmapper" does not exist'),
        (f"{DEVMAPPER}{DEVMAPPER_POOL}", NONE, ""),
    ],
)
def test_a_release_refuses_settings_of_the_cri_plugin(text: str, releases: str, reason: str) -> None:
    reasons = refusals(text)
    assert " ".join(reasons) == releases
    assert all(reason in full_reason for full_reason in reasons.values())


def test_a_writable_cgroup_is_possible_on_cgroup_v2() -> None:
    assert refusals(f"{RUNC}{RUNC_2}cgroup_writable = true\n", "/sys/fs/cgroup/cgroup.controllers") == {}
