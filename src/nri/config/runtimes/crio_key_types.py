"""The types of CRI-O's keys: CRI-O does not start with a value of another type.

Source: the structures of CRI-O 1.37. CRI-O ignores all other keys.
"""

from __future__ import annotations

_KEYS = """
.:table crio
crio:str root runroot imagestore storage_driver log_dir version_file version_file_persist clean_shutdown_file
crio:texts storage_option
crio:bool internal_wipe internal_repair
crio:table api runtime checkpoint_restore image network metrics tracing stats nri
crio.api:int grpc_max_send_msg_size grpc_max_recv_msg_size
crio.api:str listen stream_address stream_port stream_tls_cert stream_tls_key stream_tls_ca stream_idle_timeout
  tls_min_version
crio.api:bool stream_enable_tls
crio.api:texts tls_cipher_suites
crio.runtime:bool no_pivot selinux log_to_journald drop_infra_ctr read_only add_inheritable_capabilities
  device_ownership_from_security_context blockio_reload enable_criu_support enable_pod_events
  hostnetwork_disable_selinux disable_hostport_mapping
crio.runtime:texts conmon_env hooks_dir default_capabilities default_env default_sysctls default_ulimits
  allowed_devices additional_devices cdi_spec_dirs additional_artifact_stores absent_mount_sources_to_reject
crio.runtime:int min_injected_gomaxprocs minimum_mappable_uid minimum_mappable_gid pids_limit log_size_max
  ctr_stop_timeout
crio.runtime:str default_runtime decryption_keys_path conmon conmon_cgroup seccomp_profile
  privileged_seccomp_profile apparmor_profile blockio_config_file irqbalance_config_file rdt_config_file
  cgroup_manager default_mounts_file container_exits_dir container_attach_socket_dir bind_mount_prefix uid_mappings
  gid_mappings log_level log_filter namespaces_dir pinns_path separate_pull_cgroup infra_ctr_cpuset shared_cpuset
  irqbalance_config_restore_file timezone
crio.runtime:table runtimes workloads
crio.runtime.runtimes.*:str runtime_config_path runtime_path runtime_type runtime_root monitor_path monitor_cgroup
  monitor_exec_cgroup container_min_memory exec_cpu_affinity seccomp_profile
crio.runtime.runtimes.*:bool privileged_without_host_devices runtime_pull_image no_sync_log inherit_default_runtime
  stream_websockets
crio.runtime.runtimes.*:texts allowed_annotations monitor_env
crio.runtime.runtimes.*:table platform_runtime_paths default_annotations
crio.runtime.runtimes.*:int container_create_timeout
crio.runtime.workloads.*:str activation_annotation annotation_prefix
crio.runtime.workloads.*:texts allowed_annotations disallowedannotations
crio.runtime.workloads.*:table resources
crio.runtime.workloads.*.resources:int cpushares cpuquota cpuperiod cpulimit
crio.runtime.workloads.*.resources:str cpuset
crio.checkpoint_restore:str container_level_enabled
crio.image:str default_transport global_auth_file namespaced_auth_dir pause_image pause_image_auth_file
  pause_command signature_policy signature_policy_dir image_volumes big_files_temporary_dir short_name_mode
crio.image:texts pinned_images insecure_registries
crio.image:bool auto_reload_registries oci_artifact_mount_support
crio.image:duration pull_progress_timeout
crio.network:str cni_default_network network_dir plugin_dir
crio.network:texts plugin_dirs
crio.network:duration cni_status_grace_period
crio.metrics:bool enable_metrics
crio.metrics:texts metrics_collectors
crio.metrics:str metrics_host metrics_socket metrics_cert metrics_key
crio.metrics:int metrics_port
crio.tracing:bool enable_tracing
crio.tracing:str tracing_endpoint
crio.tracing:int tracing_sampling_rate_per_million
crio.stats:int stats_collection_period collection_period
crio.stats:texts included_pod_metrics
crio.nri:table default_validator
crio.nri.default_validator:bool nri_enable_default_validator nri_validator_reject_oci_hook_adjustment
  nri_validator_reject_runtime_default_seccomp_adjustment nri_validator_reject_unconfined_seccomp_adjustment
  nri_validator_reject_custom_seccomp_adjustment nri_validator_reject_namespace_adjustment
crio.nri.default_validator:texts nri_validator_required_plugins
crio.nri.default_validator:str nri_validator_tolerate_missing_plugins_annotation
"""


def _types() -> dict[tuple[str, ...], str]:
    types: dict[tuple[str, ...], str] = {}
    table: tuple[str, ...] = ()
    kind = ""
    for word in _KEYS.split():
        if ":" in word:
            path, _, kind = word.partition(":")
            table = tuple(path.strip(".").split(".")) if path != "." else ()
        else:
            types[*table, word] = kind
    return types


#: The type of each key by its path in lower case; "*" is the name of a runtime or of a workload.
KEY_TYPES = _types()
