"""What kustomize and Helm make for each bundled plugin: Kubernetes takes it, and it asks for what its table says."""

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


def test_all_that_kustomize_makes_conforms_to_kubernetes_schema(check) -> None:
    done = check({path: kustomized(path) for path in KUSTOMIZED})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"in {len(KUSTOMIZED)} files" in done.stdout
    assert "Skipped: 0" in done.stdout


@pytest.mark.parametrize("settings", [(), ALL_SETTINGS], ids=["default", "all settings"])
def test_all_that_charts_make_conforms_to_kubernetes_schema(check, settings: tuple[str, ...]) -> None:
    done = check({name: charted(name, *settings) for name in PLUGINS})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"in {len(PLUGINS)} files" in done.stdout
    assert "Skipped: 0" in done.stdout


def test_a_mistake_in_what_is_rendered_is_noticed(check) -> None:
    assert check({"bad": kustomized("logger").replace("readOnlyRootFilesystem", "readonlyRootFilesystem")}).returncode
    assert check({"bad": charted("logger").replace("maxUnavailable: 1", "maxUnavailable: {}")}).returncode


def test_every_bundled_plugin_can_be_deployed() -> None:
    assert PLUGINS == BUNDLED, "a plugin has a row in deploy/plugins.yaml, and a name in pyproject.toml"


@pytest.mark.parametrize("name", PLUGINS)
def test_it_has_root_s_name_and_of_root_s_power_what_the_table_gives_a_reason_for(name: str) -> None:
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
def test_it_sees_of_the_node_the_socket_s_folder_and_what_the_table_gives_a_reason_for(name: str) -> None:
    wanted = {"nri-socket": ("/var/run/nri", "/var/run/nri", "Directory")}
    wanted |= {mount.name: (mount.host, mount.at, mount.type) for mount in NEEDS[name].mounts}
    for text in both(name):
        volumes = {each["name"]: each["hostPath"] for each in pod(text)["volumes"]}
        mounts = {each["name"]: each for each in container(text)["volumeMounts"]}
        found = {key: (volumes[key]["path"], mounts[key]["mountPath"], volumes[key]["type"]) for key in volumes}
        assert found == wanted
        written = {mount.name for mount in NEEDS[name].mounts if mount.write}
        assert {key for key, mount in mounts.items() if not mount.get("readOnly")} == written
        assert all("subPath" not in mount for mount in mounts.values())
        assert all("mountPropagation" not in mounts[each.name] for each in NEEDS[name].mounts if not each.changes)


@pytest.mark.parametrize("name", PLUGINS)
def test_names_labels_and_limits_are_those_that_overlays_for_the_reference_expect(name: str) -> None:
    for text in both(name):
        found = objects(text)["DaemonSet"]
        assert found["metadata"]["name"] == f"nri-plugin-{name}"
        assert found["metadata"]["namespace"] == "kube-system"
        assert found["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == f"nri-plugin-{name}"
        labels = found["spec"]["template"]["metadata"]["labels"]
        assert found["spec"]["selector"]["matchLabels"].items() <= labels.items()
        plugin = container(text)
        assert plugin["args"][:2] == list(NEEDS[name].args)
        assert plugin["env"] == [{"name": "NRI_PLUGIN_NAME", "value": name}]
        assert plugin["resources"] == {"requests": {"cpu": "2m", "memory": "24Mi"}, "limits": {"memory": "128Mi"}}
    base = yaml.safe_load((DEPLOY / f"kustomize/{name}/base/daemonset.yaml").read_text())
    assert base["spec"]["template"]["spec"]["containers"][0]["image"] == "plugin:latest"


@pytest.mark.parametrize("name", PLUGINS)
def test_the_image_cannot_be_a_stranger_s(name: str) -> None:
    for text in both(name):
        assert container(text)["image"] == f"{IMAGE}:{version()}"
        assert container(text)["imagePullPolicy"] == "IfNotPresent"
    unstable = container(kustomized(f"{name}/unstable"))
    assert (unstable["image"], unstable["imagePullPolicy"]) == (f"{IMAGE}:unstable", "Always")
    assert IMAGE.startswith("localhost/"), "no registry has that name"


def overlay(folder: Path, base: str, **parts: object) -> str:
    """What an operator's own kustomization over one of ours makes."""
    made: Json = {"resources": [os.path.relpath(DEPLOY / "kustomize" / base, folder)], **parts}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(made))
    return built(folder)


def test_an_overlay_exchanges_folders_of_hooks_by_name_and_path(tmp_path: Path) -> None:
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
    assert {each["name"]: each["hostPath"]["path"] for each in pod(text)["volumes"]} == {
        "nri-socket": "/var/run/nri",
        "etc-hooks-d": "/etc/site/hooks",
    }
    assert "/etc/site/hooks" in {each["mountPath"] for each in container(text)["volumeMounts"]}


def test_an_overlay_names_registry_index_and_namespace(tmp_path: Path) -> None:
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


def test_a_component_closes_the_network(tmp_path: Path) -> None:
    component = os.path.relpath(DEPLOY / "kustomize/components/no-network", tmp_path)
    policy = objects(overlay(tmp_path, "device-injector", components=[component]))["NetworkPolicy"]["spec"]
    labels = objects(kustomized("device-injector"))["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & set(policy)


@pytest.mark.parametrize("name", [name for name in PLUGINS if NEEDS[name].config])
def test_a_configuration_becomes_a_file_that_the_plugin_is_told_of(name: str) -> None:
    for text in (kustomized(f"{name}/configured"), charted(name, f"config={json.dumps(NEEDS[name].config)}")):
        found = objects(text)["ConfigMap"]
        (volume,) = [each for each in pod(text)["volumes"] if each["name"] == "config"]
        assert volume["configMap"]["name"] == found["metadata"]["name"]
        (mount,) = [each for each in container(text)["volumeMounts"] if each["name"] == "config"]
        assert f"--config={mount['mountPath']}/config.yaml" in container(text)["args"]
        assert "subPath" not in mount, "a file mounted by itself never changes"
        assert yaml.safe_load(found["data"]["config.yaml"]).keys() == NEEDS[name].config.keys()


def _followed(name: str) -> list[str]:
    """Manifests of a plugin with its custom resource, in both ways."""
    config = json.dumps(NEEDS[name].config)
    return [kustomized(f"{name}/followed"), charted(name, "follow.enabled=true", f"config={config}")]


@pytest.mark.parametrize("name", FOLLOWING)
def test_what_brings_a_plugin_its_custom_resource_is_beside_it_and_alone_has_a_token(name: str) -> None:
    (state,) = NEEDS[name].mounts
    for text in _followed(name):
        spec, found = pod(text), objects(text)
        (first,), (plugin, beside) = spec["initContainers"], spec["containers"]
        assert f"--config={state.at}/{name}.policy.json" in plugin["args"]
        assert first["args"][:3] == beside["args"][:3] == ["placement", "follow", name]
        assert "--once" in first["args"] and "--once" not in beside["args"]
        for one in (first, beside):
            assert one["image"] == f"localhost/nri-agent:{version()}"
            assert {each["name"] for each in one["volumeMounts"]} == {state.name, "token"}
            assert one["securityContext"] == plugin["securityContext"]
            assert one["env"][0]["name"] == "NODE_NAME"
        assert "token" not in {each["name"] for each in plugin["volumeMounts"]}
        assert spec["automountServiceAccountToken"] is False
        assert spec["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
        assert found["ClusterRoleBinding"]["subjects"][0]["name"] == spec["serviceAccountName"]
        assert found["ClusterRoleBinding"]["roleRef"]["name"] == found["ClusterRole"]["metadata"]["name"]
        assert "ConfigMap" not in found


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_chart_has_the_kind_the_default_resource_and_the_least_of_roles(name: str) -> None:
    need = NEEDS[name]
    found = objects(_followed(name)[1])
    assert found[need.follows]["metadata"]["name"] == "default"
    assert found[need.follows]["spec"] == need.config
    assert found["NetworkPolicy"]["spec"]["policyTypes"] == ["Ingress"]
    crds = yaml.safe_load_all((DEPLOY / "helm/nri-plugin/crds/crds.yaml").read_text())
    assert {"kind": need.follows, "plural": need.followed}.items() <= next(
        names.items() for crd in crds if (names := crd["spec"]["names"])["kind"] == need.follows
    )
    least = {resource for rule in found["ClusterRole"]["rules"] for resource in rule["resources"]}
    assert least == {"nodes", need.followed, f"{need.followed}/status", "noderesourcetopologies"}
    by_hand = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "placement/rbac.yaml").read_text())}
    assert [each["verbs"] for each in by_hand["ClusterRole"]["rules"]] == [
        each["verbs"] for each in found["ClusterRole"]["rules"]
    ]
    digest = f"localhost/x@sha256:{'0f' * 32}"
    text = charted(name, "follow.enabled=true", f"follow.image={digest}", "nri.runtime.patchConfig=true")
    patched, first = pod(text)["initContainers"]
    assert (patched["name"], first["name"], first["image"]) == ("patch-runtime", "first", digest)


def test_what_follows_conforms_to_kubernetes_schema(check) -> None:
    made = {name: charted(name, "follow.enabled=true") for name in FOLLOWING}
    for name in FOLLOWING:  # a real server takes the kinds; this schema knows no x-kubernetes-preserve-unknown-fields
        every = yaml.safe_load_all(kustomized(f"{name}/followed"))
        made[f"{name}/followed"] = yaml.safe_dump_all(
            each for each in every if each["kind"] != "CustomResourceDefinition"
        )
    done = check(made)
    assert done.returncode == 0, done.stdout + done.stderr
