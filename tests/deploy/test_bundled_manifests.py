"""Manifests of bundled plugins by kustomize and Helm: valid, and with exactly the rights of the table."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy import kubernetes
from tests.deploy.rendered import (
    BUNDLED,
    DEPLOY,
    NEEDS,
    PLUGINS,
    Json,
    built,
    charted,
    container,
    kustomized,
    objects,
    pod,
)
from tools.deployment.kustomize import IMAGE
from tools.deployment.table import version

pytestmark = pytest.mark.timeout(900)
#: Everything that an operator can set in a chart, at once.
ALL_SETTINGS = (
    "image.name=registry.example/nri",
    f"image.digest=sha256:{'a1' * 32}",
    "image.pullPolicy=Always",
    "imagePullSecrets[0].name=mine",
    "args={-verbose}",
    "health.enabled=true",
    "socketDir=/run/other",
    "readOnlyPaths={/usr/bin/hook}",
    "runAsUser=1000",
    "seLinuxOptions.type=spc_t",
    "nodeSelector.pool=fast",
    "maxUnavailable=25%",
    "podAnnotations.note=yes",
    "podLabels.team=node",
)
KUSTOMIZED = [f"{name}{part}" for name in PLUGINS for part in ("", "/unstable")] + [
    f"{name}/configured" for name in PLUGINS if NEEDS[name].config
]
FOLLOWING = [name for name in PLUGINS if NEEDS[name].follows]


def both(name: str) -> list[str]:
    """A plugin's manifests in both ways."""
    return [kustomized(name), charted(name)]


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> object:
    program, folder = kubernetes.kubeconform(), kubernetes.schemas()

    def conform(manifests: dict[str, str]) -> subprocess.CompletedProcess[str]:
        place = tmp_path_factory.mktemp("manifests")
        for name, text in manifests.items():
            (place / f"{name.replace('/', '-')}.yaml").write_text(text)
        schemas = f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
        words = [str(program), "-strict", "-summary", "-schema-location", schemas, str(place)]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    return conform


def test_kustomizes_output_conforms_to_the_kubernetes_schema(check) -> None:
    process = check({path: kustomized(path) for path in KUSTOMIZED})
    assert process.returncode == 0, process.stdout + process.stderr
    assert f"in {len(KUSTOMIZED)} files" in process.stdout
    assert "Skipped: 0" in process.stdout


@pytest.mark.parametrize("settings", [(), ALL_SETTINGS], ids=["default", "all settings"])
def test_helms_output_conforms_to_the_kubernetes_schema(check, settings: tuple[str, ...]) -> None:
    process = check({name: charted(name, *settings) for name in PLUGINS})
    assert process.returncode == 0, process.stdout + process.stderr
    assert f"in {len(PLUGINS)} files" in process.stdout
    assert "Skipped: 0" in process.stdout


def test_the_schema_check_reports_a_misspelt_field(check) -> None:
    assert check({"bad": kustomized("logger").replace("readOnlyRootFilesystem", "readonlyRootFilesystem")}).returncode
    assert check({"bad": charted("logger").replace("maxUnavailable: 1", "maxUnavailable: {}")}).returncode


def test_every_bundled_plugin_can_be_deployed() -> None:
    assert PLUGINS == BUNDLED, "a plugin has a row in deploy/plugins.yaml, and a name in pyproject.toml"


@pytest.mark.parametrize("name", PLUGINS)
def test_the_container_is_root_with_only_the_capabilities_of_the_table(name: str) -> None:
    need = NEEDS[name]
    for text in both(name):
        rights = container(text)["securityContext"]
        assert rights.pop("runAsUser") == rights.pop("runAsGroup") == 0
        capabilities = rights.pop("capabilities")
        assert capabilities.pop("drop") == ["ALL"]
        assert capabilities.pop("add", []) == list(need.capabilities)
        assert not capabilities
        assert rights == {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        spec = pod(text)
        assert spec.get("hostNetwork", False) is bool(need.host_network)
        assert spec.get("hostPID", False) is bool(need.host_pid)
        assert not {"hostIPC", "serviceAccountName", "initContainers", "shareProcessNamespace"} & set(spec)
        assert spec["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", PLUGINS)
def test_the_container_mounts_only_the_socket_and_the_paths_of_the_table(name: str) -> None:
    expected = {"nri-socket": ("/var/run/nri", "/var/run/nri", "Directory")}
    expected |= {mount.name: (mount.host, mount.at, mount.type) for mount in NEEDS[name].mounts}
    for text in both(name):
        volumes = {item["name"]: item["hostPath"] for item in pod(text)["volumes"]}
        mounts = {item["name"]: item for item in container(text)["volumeMounts"]}
        actual = {key: (volumes[key]["path"], mounts[key]["mountPath"], volumes[key]["type"]) for key in volumes}
        assert actual == expected
        written = {mount.name for mount in NEEDS[name].mounts if mount.write}
        assert {key for key, mount in mounts.items() if not mount.get("readOnly")} == written
        assert all("subPath" not in mount for mount in mounts.values())
        assert all("mountPropagation" not in mounts[item.name] for item in NEEDS[name].mounts if not item.changes)


@pytest.mark.parametrize("name", PLUGINS)
def test_names_labels_and_limits_fit_overlays_for_the_reference(name: str) -> None:
    for text in both(name):
        daemon_set = objects(text)["DaemonSet"]
        assert daemon_set["metadata"]["name"] == f"nri-plugin-{name}"
        assert daemon_set["metadata"]["namespace"] == "kube-system"
        assert daemon_set["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == f"nri-plugin-{name}"
        labels = daemon_set["spec"]["template"]["metadata"]["labels"]
        assert daemon_set["spec"]["selector"]["matchLabels"].items() <= labels.items()
        plugin = container(text)
        assert plugin["args"][:2] == list(NEEDS[name].args)
        assert plugin["env"] == [{"name": "NRI_PLUGIN_NAME", "value": name}]
        assert plugin["resources"] == {"requests": {"cpu": "2m", "memory": "24Mi"}, "limits": {"memory": "128Mi"}}
    base = yaml.safe_load((DEPLOY / f"kustomize/{name}/base/daemonset.yaml").read_text())
    assert base["spec"]["template"]["spec"]["containers"][0]["image"] == "plugin:latest"


@pytest.mark.parametrize("name", PLUGINS)
def test_the_default_image_name_has_no_registry(name: str) -> None:
    for text in both(name):
        assert container(text)["image"] == f"{IMAGE}:{version()}"
        assert container(text)["imagePullPolicy"] == "IfNotPresent"
    unstable = container(kustomized(f"{name}/unstable"))
    assert (unstable["image"], unstable["imagePullPolicy"]) == (f"{IMAGE}:unstable", "Always")
    assert IMAGE.startswith("localhost/"), "no registry has that name"


def overlay(folder: Path, base: str, **parts: object) -> str:
    """The output of an operator's kustomization on top of one of our kustomizations."""
    kustomization: Json = {"resources": [os.path.relpath(DEPLOY / "kustomize" / base, folder)], **parts}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return built(folder)


def test_an_overlay_can_replace_hook_directories(tmp_path: Path) -> None:
    patch = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nri-plugin-hook-injector"},
        "spec": {"template": {"spec": {
            "containers": [{"name": "plugin", "volumeMounts": [
                {"name": "etc-hooks-d", "mountPath": "/etc/site/hooks"},
                {"$patch": "delete", "mountPath": "/usr/share/containers/oci/hooks.d"},
                {"$patch": "delete", "mountPath": "/usr/libexec/oci/hooks.d"},
            ]}],
            "volumes": [
                {"name": "etc-hooks-d", "hostPath": {"path": "/etc/site/hooks", "type": "DirectoryOrCreate"}},
                {"$patch": "delete", "name": "usr-share-hooks-d"},
                {"$patch": "delete", "name": "libexec-hooks-d"},
            ],
        }}},
    }  # fmt: skip
    (tmp_path / "patch.yaml").write_text(yaml.safe_dump(patch))
    text = overlay(tmp_path, "hook-injector/unstable", patches=[{"path": "patch.yaml"}])
    assert {item["name"]: item["hostPath"]["path"] for item in pod(text)["volumes"]} == {
        "nri-socket": "/var/run/nri",
        "etc-hooks-d": "/etc/site/hooks",
    }
    assert "/etc/site/hooks" in {item["mountPath"] for item in container(text)["volumeMounts"]}


def test_an_overlay_can_set_registry_index_and_namespace(tmp_path: Path) -> None:
    words = [{"op": "replace", "path": "/spec/template/spec/containers/0/args/1", "value": "35"}]
    text = overlay(
        tmp_path,
        "device-injector",
        namespace="node-system",
        images=[{"name": IMAGE, "newName": "registry.example/nri-plugins", "newTag": "1.2.3"}],
        patches=[{"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump(words)}],
    )
    assert container(text)["image"] == "registry.example/nri-plugins:1.2.3"
    assert container(text)["args"] == ["-idx", "35"]
    assert objects(text)["DaemonSet"]["metadata"]["namespace"] == "node-system"


def test_a_component_denies_network_access(tmp_path: Path) -> None:
    component = os.path.relpath(DEPLOY / "kustomize/components/no-network", tmp_path)
    policy = objects(overlay(tmp_path, "device-injector", components=[component]))["NetworkPolicy"]["spec"]
    labels = objects(kustomized("device-injector"))["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & set(policy)


@pytest.mark.parametrize("name", [name for name in PLUGINS if NEEDS[name].config])
def test_a_configuration_becomes_a_file_of_the_plugin(name: str) -> None:
    for text in (kustomized(f"{name}/configured"), charted(name, f"config={json.dumps(NEEDS[name].config)}")):
        config_map = objects(text)["ConfigMap"]
        (volume,) = [item for item in pod(text)["volumes"] if item["name"] == "config"]
        assert volume["configMap"]["name"] == config_map["metadata"]["name"]
        (mount,) = [item for item in container(text)["volumeMounts"] if item["name"] == "config"]
        assert f"--config={mount['mountPath']}/config.yaml" in container(text)["args"]
        assert "subPath" not in mount, "a file mounted by itself never changes"
        assert yaml.safe_load(config_map["data"]["config.yaml"]).keys() == NEEDS[name].config.keys()


def _followed(name: str) -> list[str]:
    """Manifests of a plugin with its custom resource, in both ways."""
    config = json.dumps(NEEDS[name].config)
    return [kustomized(f"{name}/followed"), charted(name, "follow.enabled=true", f"config={config}")]


@pytest.mark.parametrize("name", FOLLOWING)
def test_only_containers_that_follow_a_resource_have_a_token(name: str) -> None:
    (state,) = NEEDS[name].mounts
    for text in _followed(name):
        spec, manifests = pod(text), objects(text)
        (first,), (plugin, follower) = spec["initContainers"], spec["containers"]
        assert f"--config={state.at}/{name}.policy.json" in plugin["args"]
        assert first["args"][:3] == follower["args"][:3] == ["placement", "follow", name]
        assert "--once" in first["args"] and "--once" not in follower["args"]
        for one in (first, follower):
            assert one["image"] == f"localhost/nri-agent:{version()}"
            assert {mount["name"] for mount in one["volumeMounts"]} == {state.name, "token"}
            assert one["securityContext"] == plugin["securityContext"]
            assert one["env"][0]["name"] == "NODE_NAME"
        assert "token" not in {mount["name"] for mount in plugin["volumeMounts"]}
        assert spec["automountServiceAccountToken"] is False
        assert spec["serviceAccountName"] == manifests["ServiceAccount"]["metadata"]["name"]
        assert manifests["ClusterRoleBinding"]["subjects"][0]["name"] == spec["serviceAccountName"]
        assert manifests["ClusterRoleBinding"]["roleRef"]["name"] == manifests["ClusterRole"]["metadata"]["name"]
        assert "ConfigMap" not in manifests


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_chart_has_the_kind_the_default_resource_and_a_small_role(name: str) -> None:
    need = NEEDS[name]
    manifests = objects(_followed(name)[1])
    assert manifests[need.follows]["metadata"]["name"] == "default"
    assert manifests[need.follows]["spec"] == need.config
    assert manifests["NetworkPolicy"]["spec"]["policyTypes"] == ["Ingress"]
    crds = yaml.safe_load_all((DEPLOY / "helm/nri-plugin/crds/crds.yaml").read_text())
    assert {"kind": need.follows, "plural": need.followed}.items() <= next(
        names.items() for crd in crds if (names := crd["spec"]["names"])["kind"] == need.follows
    )
    least = {resource for rule in manifests["ClusterRole"]["rules"] for resource in rule["resources"]}
    assert least == {"nodes", need.followed, f"{need.followed}/status", "noderesourcetopologies"}
    by_hand = {
        manifest["kind"]: manifest for manifest in yaml.safe_load_all((DEPLOY / "placement/rbac.yaml").read_text())
    }
    assert [manifest["verbs"] for manifest in by_hand["ClusterRole"]["rules"]] == [
        manifest["verbs"] for manifest in manifests["ClusterRole"]["rules"]
    ]
    digest = f"localhost/x@sha256:{'0f' * 32}"
    text = charted(name, "follow.enabled=true", f"follow.image={digest}", "nri.runtime.patchConfig=true")
    patched, first = pod(text)["initContainers"]
    assert (patched["name"], first["name"], first["image"]) == ("patch-runtime", "first", digest)


def test_manifests_with_a_follower_conform_to_the_kubernetes_schema(check) -> None:
    texts = {name: charted(name, "follow.enabled=true") for name in FOLLOWING}
    for name in FOLLOWING:  # a real server takes the kinds; this schema knows no x-kubernetes-preserve-unknown-fields
        every = yaml.safe_load_all(kustomized(f"{name}/followed"))
        texts[f"{name}/followed"] = yaml.safe_dump_all(
            manifest for manifest in every if manifest["kind"] != "CustomResourceDefinition"
        )
    process = check(texts)
    assert process.returncode == 0, process.stdout + process.stderr
