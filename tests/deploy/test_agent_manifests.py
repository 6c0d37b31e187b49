"""Manifests of the node agent by kustomize and Helm: valid, and each choice grants only the rights of its row."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri.agent.koordinator.evict import FEATURES
from nri.agent.rubik.evict import EvictionService
from nri.agent.rubik.profile import SERVICES
from nri.agent.settings import AGENT_SETTINGS, AgentSettings
from tests.deploy import kubernetes
from tests.deploy.rendered import DEPLOY, Json, built, kustomized, render_chart, rendered_chart
from tests.support.commands import run
from tools.deployment.agent.table import IMAGE, Row, read, roles
from tools.deployment.table import version

pytestmark = pytest.mark.timeout(900)
ROWS = read()
BASE = [row for row in ROWS if row.in_base]
OPENING = [row for row in ROWS if row.opens and not row.in_base and not row.unit_only]
#: How each choice is made in a chart.
SETTING = {
    "gate": "config.gates.{}=true",
    "pods": "config.pods.source={}",
    "kernel": "{}=true",
    "mode": "config.modes={{{}}}",
}


def named(text: str) -> dict[tuple[str, str], Json]:
    """Objects by kind and name."""
    return {
        (manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in yaml.safe_load_all(text) if manifest
    }


def spec_of(text: str) -> Json:
    spec: Json = named(text)["DaemonSet", "nri-agent"]["spec"]["template"]["spec"]
    return spec


def settings_of(text: str, folder: Path) -> AgentSettings:
    """The settings that the agent reads in the DaemonSet."""
    (config_map,) = [manifest for (kind, _), manifest in named(text).items() if kind == "ConfigMap"]
    path = folder / "agent.yaml"
    path.write_text(config_map["data"]["agent.yaml"])
    return AGENT_SETTINGS.load(path, environment={}).settings


def overlay(folder: Path, *components: str) -> str:
    """What an operator's kustomization over the agent with components makes."""
    kustomization = {
        "resources": [os.path.relpath(DEPLOY / "kustomize/agent", folder)],
        "components": [os.path.relpath(DEPLOY / "kustomize/agent/components" / name, folder) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return built(folder)


def both(row: Row, folder: Path) -> list[str]:
    """The manifests of both ways with one choice made."""
    return [overlay(folder, row.name), rendered_chart("agent", SETTING[row.choice].format(row.value))]


def check(spec: Json, rows: list[Row]) -> None:
    """Assert that a pod has what these rows open, and nothing else."""
    (container,) = spec["containers"]
    rights = container["securityContext"]
    capabilities_ = {name for row in rows for name in row.capabilities}
    assert rights["capabilities"]["drop"] == ["ALL"]
    assert set(rights["capabilities"].get("add", [])) == capabilities_
    assert (rights["privileged"], rights["allowPrivilegeEscalation"], rights["readOnlyRootFilesystem"]) == (
        False, False, True,
    )  # fmt: skip
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec.get("hostPID", False) is any(row.host_pid for row in rows)
    assert spec.get("hostNetwork", False) is any(row.host_network for row in rows)
    assert "hostIPC" not in spec
    mounts: dict[str, Any] = {}
    for mount in (mount for row in rows for mount in row.mounts):
        mounts[mount.name] = (
            mount.host,
            mount.at,
            mount.type,
            mount.write or mounts.get(mount.name, (0, 0, 0, 0))[3],
        )
    paths = {item_["name"]: item_["hostPath"] for item_ in spec["volumes"] if "hostPath" in item_}
    places = {item_["name"]: item_ for item_ in container["volumeMounts"] if item_["name"] in paths}
    assert mounts == {
        name: (path["path"], places[name]["mountPath"], path["type"], not places[name].get("readOnly", False))
        for name, path in paths.items()
    }


def bound(text: str) -> set[str]:
    """The roles that the agent has."""
    return {manifest["roleRef"]["name"] for (kind, _), manifest in named(text).items() if kind == "ClusterRoleBinding"}


def test_by_default_kustomize_and_helm_grant_only_the_rights_of_the_default_modes() -> None:
    for text in (kustomized("agent"), rendered_chart("agent")):
        check(spec_of(text), BASE)
        assert bound(text) == {"nri-agent"}


@pytest.mark.parametrize("row", OPENING, ids=lambda row: row.name)
def test_a_choice_grants_only_the_rights_of_its_row(row: Row, tmp_path: Path) -> None:
    for way, text in enumerate(both(row, tmp_path)):
        # A chart's mode is one instead of the default ones, a component's one more.
        rows = [base_row for base_row in BASE if base_row.choice != "mode"] if way and row.choice == "mode" else BASE
        check(spec_of(text), [*rows, row])
        assert bound(text) == {"nri-agent"} | ({row.rbac} if row.rbac else set())


def test_every_evicting_strategy_gets_the_eviction_role() -> None:
    services = {row.name for row in SERVICES if issubclass(row.service, EvictionService)}
    evicting = {row.value for row in OPENING if row.rbac == "nri-agent-evict"}
    assert evicting == services | {feature.name for feature in FEATURES}


def test_all_components_can_be_combined(tmp_path: Path) -> None:
    text = overlay(tmp_path, *(row.name for row in OPENING))
    check(spec_of(text), [*BASE, *OPENING])
    assert bound(text) == {"nri-agent", "nri-agent-evict", "nri-agent-kubelet"}


def test_roles_equal_the_role_file_and_only_read(tmp_path: Path) -> None:
    written = {role["metadata"]["name"]: role["rules"] for role in roles() if role["kind"] == "ClusterRole"}
    text = rendered_chart("agent", "config.gates.BECPUEvict=true", "config.pods.source=kubelet")
    assert {name: role["rules"] for (kind, name), role in named(text).items() if kind == "ClusterRole"} == written
    verbs = {verb for rule in written["nri-agent"] for verb in rule["verbs"]}
    assert verbs == {"list", "watch"}
    assert not [
        kind for kind, _ in named(rendered_chart("agent", "rbac=false")) if kind.startswith(("Cluster", "Service"))
    ]


def test_the_agent_reads_the_settings_of_kustomize_and_helm(tmp_path: Path) -> None:
    default = settings_of(kustomized("agent"), tmp_path)
    assert default == settings_of(rendered_chart("agent"), tmp_path)
    assert (default.modes, default.rules.source, default.pods.source) == (
        ("nri", "standalone"),
        "apiserver",
        "apiserver",
    )
    assert (str(default.root), default.socket) == ("/host", "/run/nri-agent/agent.sock")
    changed = settings_of(rendered_chart("agent", "config.nri.index=07", "config.gates.Resctrl=true"), tmp_path)
    assert (changed.nri.index, changed.gates, changed.root) == ("07", {"Resctrl": True}, default.root)


@pytest.mark.parametrize(
    ("setting", "named_as"),
    [
        ("config.nri.indx=07", "additional properties 'indx' not allowed"),
        ("config.gates.Resctl=true", "additional properties 'Resctl' not allowed"),
        ("config.modes={proxy}", "at '/config/modes/0'"),
        ("config.gates.TCNetworkQoS=true", "at '/config/gates/TCNetworkQoS'"),
        ("config.root=/", "additional properties 'root' not allowed"),
        ("config.failure_policy=ignore", "at '/config/failure_policy'"),
        ("privileged=true", "'privileged' not allowed"),
    ],
)
def test_a_bad_value_is_an_error_with_its_name(setting: str, named_as: str) -> None:
    process = render_chart("agent", setting)
    assert process.returncode == 1, process.stdout
    assert named_as in process.stderr


def test_all_manifests_conform_to_the_kubernetes_schema(tmp_path: Path) -> None:
    texts = {
        "kustomize": kustomized("agent"),
        "unstable": kustomized("agent/unstable"),
        "chart": rendered_chart("agent"),
    }
    gates = [f"config.gates.{row.value}=true" for row in OPENING if row.choice == "gate"]
    texts["all"] = rendered_chart(
        "agent", *gates, "config.pods.source=kubelet", "anolis=true", "args={-v}", "podLabels.team=node",
        "seLinuxOptions.type=spc_t", "imagePullSecrets[0].name=mine", f"image.digest=sha256:{'a1' * 32}",
    )  # fmt: skip
    folder = tmp_path / "rendered"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    schemas = f"{kubernetes.schemas()}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    summary = run([kubernetes.kubeconform(), "-strict", "-summary", "-schema-location", schemas, folder])
    assert "Invalid: 0, Errors: 0, Skipped: 0" in summary


def test_the_default_image_name_has_no_registry() -> None:
    for text in (kustomized("agent"), rendered_chart("agent")):
        (container,) = spec_of(text)["containers"]
        assert (container["image"], container["imagePullPolicy"]) == (f"{IMAGE}:{version()}", "IfNotPresent")
    assert IMAGE.startswith("localhost/"), "no registry has that name"
