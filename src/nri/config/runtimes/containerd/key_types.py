"""The types of containerd's keys: with a value of another type the daemon does not start.

Source: containerd 1.7.24, 2.1.9, 2.3.4 and 2.4.2. The daemon does not know other keys of plugins, and ignores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

Types = Mapping[str, "Types | str"]

_TOP_KEYS = """
version:int root:str state:str temp:str oom_score:int disabled_plugins:texts required_plugins:texts
imports:texts plugins:table cgroup.path:str timeouts.*:str
grpc.address:str grpc.tcp_address:str grpc.tcp_tls_ca:str grpc.tcp_tls_cert:str grpc.tcp_tls_key:str
grpc.tcp_tls_common_name:str grpc.uid:int grpc.gid:int grpc.max_recv_message_size:int grpc.max_send_message_size:int
ttrpc.address:str ttrpc.uid:int ttrpc.gid:int
debug.address:str debug.uid:int debug.gid:int debug.level:str debug.format:str
metrics.address:str metrics.grpc_histogram:bool
proxy_plugins.*.type:str proxy_plugins.*.address:str proxy_plugins.*.platform:str proxy_plugins.*.exports.*:str
proxy_plugins.*.capabilities:texts
stream_processors.*.accepts:texts stream_processors.*.returns:str stream_processors.*.path:str
stream_processors.*.args:texts stream_processors.*.env:texts
"""
_NRI = """
disable:bool disable_connections:bool socket_path:str plugin_path:str plugin_config_path:str
plugin_registration_timeout:duration plugin_request_timeout:duration
"""
_VALIDATOR = """
enable:bool required_plugins:texts tolerate_missing_plugins_annotation:str reject_oci_hook_adjustment:bool
reject_runtime_default_seccomp_adjustment:bool reject_unconfined_seccomp_adjustment:bool
reject_custom_seccomp_adjustment:bool reject_namespace_adjustment:bool reject_sysctl_adjustment:bool
"""
_CRI_RUNTIME = """
runtime_type:str runtime_path:str pod_annotations:texts container_annotations:texts options:table
privileged_without_host_devices:bool privileged_without_host_devices_all_devices_allowed:bool base_runtime_spec:str
cni_conf_dir:str cni_max_conf_num:int snapshotter:str
"""
_CRI_RUNTIME_1 = f"{_CRI_RUNTIME} runtime_engine:str runtime_root:str sandbox_mode:str"
_CRI_RUNTIME_2 = f"{_CRI_RUNTIME} sandboxer:str io_type:str cgroup_writable:bool"
_REGISTRY = """
config_path:str mirrors.*.endpoint:texts auths.*.username:str auths.*.password:str auths.*.auth:str
auths.*.identitytoken:str configs.*.auth.username:str configs.*.auth.password:str configs.*.auth.auth:str
configs.*.auth.identitytoken:str headers.*:texts
"""
_REGISTRY_1 = f"""{_REGISTRY} configs.*.tls.insecure_skip_verify:bool configs.*.tls.ca_file:str
configs.*.tls.cert_file:str configs.*.tls.key_file:str"""
_CRI_SERVER = """
disable_tcp_service:bool stream_server_address:str stream_server_port:str stream_idle_timeout:str
enable_tls_streaming:bool x509_key_pair_streaming.tls_cert_file:str x509_key_pair_streaming.tls_key_file:str
"""
_CRI_CONTAINERS = """
enable_selinux:bool selinux_category_range:int max_container_log_line_size:int disable_apparmor:bool
restrict_oom_score_adj:bool disable_proc_mount:bool unset_seccomp_profile:str tolerate_missing_hugetlb_controller:bool
disable_hugetlb_controller:bool device_ownership_from_security_context:bool ignore_image_defined_volumes:bool
netns_mounts_under_state_dir:bool enable_unprivileged_ports:bool enable_unprivileged_icmp:bool enable_cdi:bool
cdi_spec_dirs:texts drain_exec_sync_io_timeout:str ignore_deprecation_warnings:texts
containerd.default_runtime_name:str containerd.ignore_blockio_not_enabled_errors:bool
containerd.ignore_rdt_not_enabled_errors:bool
cni.bin_dir:str cni.conf_dir:str cni.max_conf_num:int cni.setup_serially:bool cni.conf_template:str cni.ip_pref:str
"""
_IMAGES = """
image_decryption.key_model:str max_concurrent_downloads:int image_pull_progress_timeout:str
image_pull_with_sync_fs:bool stats_collect_period:int
"""


class _Keys(NamedTuple):
    """Keys, the first series of releases that has them, and the first later series without them, or ""."""

    keys: str
    since: str = ""
    until: str = ""

    def holds_in(self, series: str) -> bool:
        """Whether a series of releases has the keys."""
        return self.since <= series and (not self.until or series < self.until)


def _with_prefix(prefix: str, keys: str) -> str:
    return " ".join(f"{prefix}.{key}" for key in keys.split())


_TOP = (_Keys(_TOP_KEYS), _Keys("plugin_dir:str", until="2.0"), _Keys("debug.log_trace_id:bool", "2.3"))

CRI = "io.containerd.grpc.v1.cri"
CRI_RUNTIME = "io.containerd.cri.v1.runtime"
CRI_IMAGES = "io.containerd.cri.v1.images"
NRI = "io.containerd.nri.v1.nri"

_PLUGINS: tuple[tuple[str, _Keys], ...] = (
    (NRI, _Keys(_NRI)),
    (NRI, _Keys(_with_prefix("default_validator", _VALIDATOR), "2.2")),
    (CRI, _Keys(_CRI_SERVER)),
    (
        CRI,
        _Keys(
            f"""{_CRI_CONTAINERS} {_IMAGES} sandbox_image:str systemd_cgroup:bool disable_cgroup:bool
            {_with_prefix("registry", _REGISTRY_1)} {_with_prefix("containerd.runtimes.*", _CRI_RUNTIME_1)}
            {_with_prefix("containerd.default_runtime", _CRI_RUNTIME_1)}
            {_with_prefix("containerd.untrusted_workload_runtime", _CRI_RUNTIME_1)} containerd.snapshotter:str
            containerd.no_pivot:bool containerd.disable_snapshot_annotations:bool
            containerd.discard_unpacked_layers:bool""",
            until="2.0",
        ),
    ),
    (
        CRI_RUNTIME,
        _Keys(
            f"""{_CRI_CONTAINERS} {_with_prefix("containerd.runtimes.*", _CRI_RUNTIME_2)} cni.bin_dirs:texts
            cni.use_internal_loopback:bool""",
            "2.0",
        ),
    ),
    (
        CRI_RUNTIME,
        _Keys(
            """stats_collect_period:str stats_retention_period:str enable_criu:bool
            enable_experimental_restore_via_create:bool""",
            "2.3",
        ),
    ),
    (
        CRI_IMAGES,
        _Keys(
            f"""{_IMAGES} snapshotter:str disable_snapshot_annotations:bool discard_unpacked_layers:bool
            pinned_images.*:str runtime_platforms.*.platform:str runtime_platforms.*.snapshotter:str
            {_with_prefix("registry", _REGISTRY)} concurrent_layer_fetch_buffer:int use_local_image_pull:bool""",
            "2.0",
        ),
    ),
    (
        "io.containerd.gc.v1.scheduler",
        _Keys(
            """pause_threshold:float deletion_threshold:int mutation_threshold:int schedule_delay:duration
            startup_delay:duration"""
        ),
    ),
    ("io.containerd.differ.v1.erofs", _Keys("mkfs_options:texts", "2.1")),
    ("io.containerd.differ.v1.erofs", _Keys("enable_dmverity:bool enable_tar_index:bool", "2.3")),
    (
        "io.containerd.image-verifier.v1.bindir",
        _Keys("bin_dir:str max_verifiers:int per_verifier_timeout:duration", "2.0"),
    ),
    ("io.containerd.internal.v1.opt", _Keys("path:str")),
    ("io.containerd.internal.v1.restart", _Keys("interval:duration", until="2.0")),
    ("io.containerd.internal.v1.tracing", _Keys("sampling_ratio:float service_name:str", until="2.4")),
    ("io.containerd.monitor.container.v1.restart", _Keys("interval:duration", "2.0")),
    ("io.containerd.metadata.v1.bolt", _Keys("content_sharing_policy:str")),
    ("io.containerd.metadata.v1.bolt", _Keys("no_sync:bool", "2.1")),
    ("io.containerd.monitor.v1.cgroups", _Keys("no_prometheus:bool", until="2.0")),
    ("io.containerd.monitor.task.v1.cgroups", _Keys("no_prometheus:bool", "2.0")),
    ("io.containerd.metrics.v1.grpc-prometheus", _Keys("grpc_histogram:bool", "2.3")),
    (
        "io.containerd.runtime.v1.linux",
        _Keys("no_shim:bool runtime:str runtime_root:str shim:str shim_debug:bool", until="2.0"),
    ),
    ("io.containerd.runtime.v2.task", _Keys("platforms:texts")),
    ("io.containerd.runtime.v2.task", _Keys("sched_core:bool", until="2.0")),
    ("io.containerd.server.v1.debug", _Keys("address:str uid:int gid:int", "2.3")),
    (
        "io.containerd.server.v1.grpc",
        _Keys("address:str uid:int gid:int max_recv_message_size:int max_send_message_size:int", "2.3"),
    ),
    (
        "io.containerd.server.v1.grpc-tcp",
        _Keys(
            """address:str tls_ca:str tls_cert:str tls_common_name:str tls_key:str max_recv_message_size:int
            max_send_message_size:int""",
            "2.3",
        ),
    ),
    ("io.containerd.server.v1.metrics", _Keys("address:str", "2.3")),
    ("io.containerd.server.v1.ttrpc", _Keys("address:str uid:int gid:int", "2.3")),
    ("io.containerd.service.v1.diff-service", _Keys("default:texts")),
    ("io.containerd.service.v1.diff-service", _Keys("sync_fs:bool", "2.1")),
    ("io.containerd.service.v1.tasks-service", _Keys("blockio_config_file:str rdt_config_file:str")),
    ("io.containerd.shim.v1.manager", _Keys("env:texts", "2.1")),
    ("io.containerd.shim.v1.manager", _Keys("socket_dir:str", "2.3")),
    ("io.containerd.snapshotter.v1.aufs", _Keys("root_path:str", until="2.0")),
    (
        "io.containerd.snapshotter.v1.blockfile",
        _Keys("fs_type:str mount_options:texts root_path:str scratch_file:str"),
    ),
    ("io.containerd.snapshotter.v1.blockfile", _Keys("recreate_scratch:bool", "2.1")),
    ("io.containerd.snapshotter.v1.btrfs", _Keys("root_path:str")),
    (
        "io.containerd.snapshotter.v1.devmapper",
        _Keys(
            """async_remove:bool base_image_size:str discard_blocks:bool fs_options:str fs_type:str pool_name:str
            root_path:str"""
        ),
    ),
    (
        "io.containerd.snapshotter.v1.erofs",
        _Keys("enable_fsverity:bool ovl_mount_options:texts root_path:str set_immutable:bool", "2.1"),
    ),
    ("io.containerd.snapshotter.v1.erofs", _Keys("default_size:str dmverity_mode:str", "2.3")),
    ("io.containerd.snapshotter.v1.erofs", _Keys("layer_content_caches:texts", "2.4")),
    ("io.containerd.snapshotter.v1.native", _Keys("root_path:str")),
    (
        "io.containerd.snapshotter.v1.overlayfs",
        _Keys("mount_options:texts root_path:str sync_remove:bool upperdir_label:bool"),
    ),
    ("io.containerd.snapshotter.v1.overlayfs", _Keys("slow_chown:bool", "2.0")),
    ("io.containerd.snapshotter.v1.zfs", _Keys("root_path:str")),
    ("io.containerd.tracing.processor.v1.otlp", _Keys("endpoint:str protocol:str insecure:bool", until="2.4")),
    (
        "io.containerd.transfer.v1.local",
        _Keys("config_path:str max_concurrent_downloads:int max_concurrent_uploaded_layers:int unpack_config:tables"),
    ),
    (
        "io.containerd.transfer.v1.local",
        _Keys("check_platform_supported:bool concurrent_layer_fetch_buffer:int", "2.1"),
    ),
    ("io.containerd.transfer.v1.local", _Keys("max_concurrent_unpacks:int", "2.3")),
)
VALIDATOR_KEYS = frozenset(key.partition(":")[0] for key in _VALIDATOR.split())
NRI_KEYS = frozenset(key.partition(":")[0] for key in _NRI.split())


@cache
def top_types(first: str) -> Types:
    """The types of the keys outside of the plugins' tables, in the series that begins with this release."""
    series = first.rpartition(".")[0]
    return _tree(" ".join(keys.keys for keys in _TOP if keys.holds_in(series)))


@cache
def plugin_types(first: str) -> Mapping[str, Types]:
    """The types of all plugins' keys, in the series that begins with this release ("2.3.0")."""
    series = first.rpartition(".")[0]
    keys: dict[str, str] = {}
    for name, plugin in _PLUGINS:
        if plugin.holds_in(series):
            keys[name] = f"{keys.get(name, '')} {plugin.keys}"
    return {name: _tree(text) for name, text in keys.items()}


def _tree(text: str) -> Types:
    tree: dict[str, Types | str] = {}
    for entry in text.split():
        path, _, kind = entry.partition(":")
        *parents, key = path.split(".")
        table = tree
        for parent in parents:
            table = table.setdefault(parent, {})  # type: ignore[assignment]
        table[key] = kind
    return tree
