"""The table of hooks: results of each stage, order, and failing hooks."""

import json
from dataclasses import replace

import pytest

from nri.agent.hooks import decide
from nri.agent.koordinator import cpuset, gpu, group_identity, names, oom_score_adj, resctrl
from nri.agent.koordinator.node import (
    Cache,
    CoreSchedClass,
    CoreSchedRule,
    CpusetRule,
    GroupIdentityRule,
    Node,
    SharePool,
)
from nri.agent.koordinator.profile import HOOKS
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import (
    Changes,
    Container,
    Device,
    ExtendedResources,
    HostApplication,
    KubeQosFolder,
    Pod,
    Resctrl,
    Resources,
)

ALL = frozenset(row.name for row in HOOKS)


class OneDevice:
    """A machine with one RDMA function."""

    def verbs(self, pci_address: str) -> list[str]:
        return ["uverbs0"]

    def numbers(self, path: str) -> tuple[int, int]:
        return 231, 192


NODE = Node(
    identity=GroupIdentityRule(True, {"LS": 2, "BE": -1}, {"BestEffort": -1}, {"Guaranteed": 2}),
    cpus=CpusetRule((SharePool(0, 0, "0-3"), SharePool(0, 1, "4-7"))),
    ratio=2.0,
    core=CoreSchedRule(True, {"BE": CoreSchedClass(True)}, {"BestEffort": CoreSchedClass(True, cpu_idle=True)}),
    cache=Cache((0,), 0xFFF, "GenuineIntel"),
    devices=OneDevice(),
    gates=ALL,
)


def pod(qos: str = "", **annotations: object) -> Pod:
    keys = {
        "devices": names.ANNOTATION_DEVICES,
        "resctrl": resctrl.ANNOTATION_RESCTRL,
        "status": cpuset.ANNOTATION_STATUS,
        "oom": oom_score_adj.ANNOTATION_OOM_SCORE,
        "cpu_qos": group_identity.ANNOTATION_CPU_QOS,
    }
    source = {keys[key]: value if isinstance(value, str) else json.dumps(value) for key, value in annotations.items()}
    return Pod("ns", "pod", "uid", {names.LABEL_QOS: qos} if qos else {}, source, "kubepods/poduid")


BATCH = {"c": ExtendedResources({names.BATCH_CPU: 500}, {names.BATCH_CPU: 500, names.BATCH_MEMORY: 1024})}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("stage", "context", "hook", "changes"),
    [
        ("PreRunPodSandbox", pod("LS"), "GroupIdentity", Changes({"cpu.bvt": 2})),
        ("PreRunPodSandbox", pod(status={"cpuset": "1"}), "CPUSetAllocator", Changes({"cpu.cfs_quota": -1})),
        (
            "PreRunPodSandbox",
            replace(pod("BE"), extended=BATCH),
            "BatchResource",
            Changes({"cpu.shares": 512, "cpu.cfs_quota": 50_000, "memory.limit": 1024}),
        ),
        (
            "PreRunPodSandbox",
            replace(pod("LS"), resources=Resources(cfs_quota=100_000)),
            "CPUNormalization",
            Changes({"cpu.cfs_quota": 50_000}),
        ),
        (
            "PreRunPodSandbox",
            pod(resctrl={"mb": {"schemata": {"percent": 25}}}),
            "Resctrl",
            Changes(resctrl=Resctrl("koordlet-uid", "MB:0=30;\n")),
        ),
        (
            "PreRemoveRunPodSandbox",
            pod(resctrl={}),
            "Resctrl",
            Changes(resctrl=Resctrl("koordlet-uid", remove=True)),
        ),
        ("PreCreateContainer", Container(pod("LS")), "CPUSetAllocator", Changes({"cpuset.cpus": "0-3,4-7"})),
        (
            "PreUpdateContainerResources",
            Container(pod("LS")),
            "CPUSetAllocator",
            Changes({"cpuset.cpus": "0-3,4-7"}),
        ),
        (
            "PreCreateContainer",
            Container(pod("LS"), resources=Resources(cfs_quota=100_000)),
            "CPUNormalization",
            Changes({"cpu.cfs_quota": 50_000}),
        ),
        (
            "PreCreateContainer",
            Container(pod("BE"), extended=BATCH["c"]),
            "BatchResource",
            Changes({"cpu.shares": 512, "cpu.cfs_quota": 50_000, "memory.limit": 1024}),
        ),
        (
            "PreCreateContainer",
            Container(pod(devices={"gpu": [{"minor": 3}]})),
            "GPUEnvInject",
            Changes(env={"NVIDIA_VISIBLE_DEVICES": "3"}),
        ),
        (
            "PreCreateContainer",
            Container(pod(devices={"rdma": [{"id": "0000:01:00.0"}]})),
            "RDMADeviceInject",
            Changes(
                devices=tuple(
                    Device(f"/dev/infiniband/{name}", "c", 231, 192, 0o666) for name in ("rdma_cm", "uverbs0")
                )
            ),
        ),
        (
            "PreCreateContainer",
            Container(pod(resctrl={})),
            "Resctrl",
            Changes(resctrl=Resctrl("koordlet-uid")),
        ),
        ("PreCreateContainer", Container(pod(oom="-500")), "OOMScoreAdj", Changes({"oom_score_adj": -500})),
        ("ReconcilePod", pod("LS"), "GroupIdentity", Changes({"cpu.bvt": 2})),
        (
            "ReconcileSandbox",
            Container(pod("LS"), sandbox=True),
            "CPUSetAllocator",
            Changes({"cpuset.cpus": "0-3,4-7"}),
        ),
        (
            "ReconcileContainer",
            Container(pod("BE"), extended=BATCH["c"]),
            "BatchResource",
            Changes({"cpu.shares": 512, "cpu.cfs_quota": 50_000, "memory.limit": 1024}),
        ),
        ("ReconcileContainer", Container(pod(oom="-500")), "OOMScoreAdj", Changes({"oom_score_adj": -500})),
        ("KubeQoS", KubeQosFolder("BestEffort"), "GroupIdentity", Changes({"cpu.bvt": -1})),
        ("KubeQoS", KubeQosFolder("BestEffort"), "CoreSched", Changes({"cpu.idle": 1})),
        ("HostApplication", HostApplication("app", "LS"), "GroupIdentity", Changes({"cpu.bvt": 2})),
        (
            "HostApplication",
            HostApplication("app", "LS"),
            "CPUSetAllocator",
            Changes({"cpuset.cpus": "0-3,4-7"}),
        ),
    ],
)
def test_every_hook_decides_at_its_stages(stage: str, context: object, hook: str, changes: Changes) -> None:
    alone = decide(HOOKS, stage, context, replace(NODE, gates=frozenset({hook})))
    assert (alone.changes, alone.errors) == (changes, [])
    assert [because.hook for because in alone.because] == [hook]
    assert alone.because[0].reason


@pytest.mark.parametrize("hook", ["GPUEnvInject", "RDMADeviceInject", "Resctrl", "OOMScoreAdj"])
def test_a_creation_only_hook_changes_nothing_at_an_update(hook: str) -> None:
    context = Container(pod(devices={"gpu": [{"minor": 3}], "rdma": [{"id": "x"}]}, resctrl={}, oom="1"))
    assert not decide(HOOKS, "PreUpdateContainerResources", context, replace(NODE, gates=frozenset({hook}))).changes


@pytest.mark.parametrize("hook", ["GPUEnvInject", "RDMADeviceInject", "Resctrl"])
def test_a_creation_only_hook_changes_nothing_of_a_running_container(hook: str) -> None:
    context = Container(pod(devices={"gpu": [{"minor": 3}], "rdma": [{"id": "x"}]}, resctrl={}))
    assert not decide(HOOKS, "ReconcileContainer", context, replace(NODE, gates=frozenset({hook}))).changes


@pytest.mark.parametrize(
    ("off", "stage", "context"),
    [
        ("PreRunPodSandbox", "ReconcilePod", pod("LS")),
        ("PreUpdateContainerResources", "ReconcileSandbox", Container(pod("LS"), sandbox=True)),
        ("PreUpdateContainerResources", "ReconcileContainer", Container(pod("LS"))),
        ("ReconcileContainer", "ReconcileContainer", Container(pod("LS"))),
    ],
)
def test_a_disabled_stage_is_not_repeated_later(off: str, stage: str, context: object) -> None:
    assert decide(HOOKS, stage, context, NODE).changes
    assert not decide(HOOKS, stage, context, replace(NODE, disabled_stages=frozenset({off}))).changes
    assert decide(HOOKS, stage, context, replace(NODE, disabled_stages=frozenset({"PreCreateContainer"}))).changes


def test_a_pod_with_assigned_cpus_has_no_quota_despite_normalization() -> None:
    context = Container(pod("LS", status={"cpuset": "1"}), resources=Resources(cfs_quota=100_000))
    outcome = decide(HOOKS, "PreCreateContainer", context, NODE)
    assert (outcome.changes.knobs.get("cpuset.cpus"), outcome.changes.knobs.get("cpu.cfs_quota")) == ("1", -1)


def test_without_gates_koordinators_defaults_apply() -> None:
    on = {row.name for row in HOOKS if row.default}
    assert on == {"GroupIdentity", "CPUSetAllocator", "BatchResource"}
    outcome = decide(HOOKS, "PreCreateContainer", Container(pod("LS", oom="1")), replace(NODE, gates=None))
    assert {because.hook for because in outcome.because} <= on


BAD = Container(pod("LS", status="bad", devices="bad", resctrl="bad", oom="bad", cpu_qos="bad"))


def test_an_invalid_annotation_stops_no_other_hook() -> None:
    context = Container(pod("LS", devices="bad"))
    outcome = decide(HOOKS, "PreCreateContainer", context, NODE)
    assert outcome.changes.knobs.get("cpuset.cpus") == "0-3,4-7"
    assert {error.hook for error in outcome.errors} == {"GPUEnvInject", "RDMADeviceInject"}
    assert outcome.failed is None


def test_under_the_policy_fail_the_first_error_stops_the_other_hooks() -> None:
    outcome = decide(HOOKS, "PreCreateContainer", BAD, replace(NODE, fail=True))
    assert outcome.failed is outcome.errors[0]
    assert len(outcome.errors) == 1
    assert "annotation" in outcome.failed.reason


@pytest.mark.parametrize("stage", ["PreRunPodSandbox", "PreCreateContainer", "PreUpdateContainerResources"])
def test_invalid_annotations_change_nothing_and_are_errors(stage: str) -> None:
    context = BAD.pod if stage == "PreRunPodSandbox" else BAD
    outcome = decide(HOOKS, stage, context, NODE)
    assert not outcome.changes
    assert outcome.errors


def test_only_the_original_applies_the_partial_changes_of_a_failed_hook() -> None:
    """`failed_hook_changes_nothing`."""
    share = {"gpu": [{"minor": 1, "resources": {"koordinator.sh/gpu-memory-ratio": "50"}}]}
    manifest = pod(devices=share)
    context = Container(replace(manifest, labels={gpu.LABEL_GPU_ISOLATION: "HAMi-core"}))
    node = replace(NODE, gates=frozenset({"GPUEnvInject"}))
    assert not decide(HOOKS, "PreCreateContainer", context, node).changes
    original = decide(HOOKS, "PreCreateContainer", context, replace(node, quirks=Quirks.REFERENCE))
    assert original.changes.env == {"NVIDIA_VISIBLE_DEVICES": "1"}
    assert original.errors


def test_disabled_stages_are_skipped_by_default_but_not_in_the_original() -> None:
    """`disabled_stages_honoured`."""
    node = replace(NODE, disabled_stages=frozenset({"PreRunPodSandbox"}))
    assert not decide(HOOKS, "PreRunPodSandbox", pod("LS"), node).changes
    assert decide(HOOKS, "PreRunPodSandbox", pod("LS"), replace(node, quirks=Quirks.REFERENCE)).changes


def test_the_original_sets_no_oom_score_at_creation() -> None:
    """`oom_score_at_creation`."""
    node = replace(NODE, gates=frozenset({"OOMScoreAdj"}), quirks=Quirks.REFERENCE)
    assert not decide(HOOKS, "PreCreateContainer", Container(pod(oom="-500")), node).changes


def test_an_unknown_stage_is_an_error() -> None:
    with pytest.raises(KeyError):
        decide(HOOKS, "PreStop", pod(), NODE)


def test_hooks_run_in_the_order_of_their_names() -> None:
    names_of = [row.name.casefold() for row in HOOKS]
    assert names_of == sorted(names_of)
