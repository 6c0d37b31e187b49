"""Values of the plugins' chart: the schema has every key and refuses invalid values by name."""

from __future__ import annotations

import json

import pytest
import yaml

from nri.plugins import registry
from nri.testing import FakeRuntime
from tests.deploy.rendered import BUNDLED, DEPLOY, NEEDS, PLUGINS, Json, charted, container, objects, pod, render

pytestmark = pytest.mark.timeout(900)
CHART = DEPLOY / "helm/nri-plugin"
EMPTY_LISTS = ("tolerations=[]", "affinity=[]", "nodeSelector=[]")


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("plugin=other", "at '/plugin'"),
        ("nri.plugin.index=abc", "at '/nri/plugin/index'"),
        ("nri.plugin.index=100", "at '/nri/plugin/index'"),
        ("nri.plugin.indx=10", "'indx' not allowed"),
        ("imge.tag=1", "'imge' not allowed"),
        ("image.tga=1", "at '/image': additional properties 'tga' not allowed"),
        ("image.pullPolicy=Sometimes", "at '/image/pullPolicy'"),
        ("image.digest=sha256:short", "at '/image/digest'"),
        ("image.name=", "at '/image/name'"),
        ("log.level=loud", "at '/log/level'"),
        ("health.port=70000", "at '/health/port'"),
        ("health.enabled=maybe", "at '/health/enabled'"),
        ("socketDir=relative", "at '/socketDir'"),
        ("readOnlyPaths={relative}", "at '/readOnlyPaths/0'"),
        ("runAsUser=root", "at '/runAsUser'"),
        ("nri.runtime.patchConfig=1", "at '/nri/runtime/patchConfig'"),
        ("nri.runtime.config.pluginRequestTimeout=5", "at '/nri/runtime/config/pluginRequestTimeout'"),
        ("initContainerImage.name=x", "'initContainerImage' not allowed"),
        ("follow.enabled=true", "at '/follow/enabled'"),
        ("hostPaths.etc=/x", "'etc' not allowed"),
        ("seLinuxOptions.typ=x", "'typ' not allowed"),
        ("resources.limit.memory=1Gi", "'limit' not allowed"),
        ("config=text", "at '/config'"),
        ("args=-verbose", "at '/args'"),
        ("maxUnavailable=0", "at '/maxUnavailable'"),
        ("privileged=true", "'privileged' not allowed"),
        ("hostNetwork=true", "'hostNetwork' not allowed"),
    ],
)
def test_the_schema_refuses_a_bad_value_by_its_name(setting: str, named: str) -> None:
    process = render("device-injector", setting)
    assert process.returncode == 1, process.stdout
    assert named in process.stderr


@pytest.mark.parametrize(
    ("name", "setting", "named"),
    [
        ("logger", "config.logfile=/x", "at '/config': additional properties 'logfile' not allowed"),
        ("logger", "config.events=all", "at '/config/events'"),
        ("default-validator", "config.rejectSysctlAdjustment=maybe", "at '/config/rejectSysctlAdjustment'"),
        ("hook-injector", "config.hooks_dirs=/x", "at '/config/hooks_dirs'"),
        ("rdt", "config.any=1", "at '/config'"),
        ("image-policy", "config.default=refuse", "at '/config/default'"),
        ("image-policy", "config.unknown_image=signature_policy", "at '/config/unknown_image'"),
        ("image-policy", "config.rules[0].action=block", "at '/config/rules/0/action'"),
        ("image-policy", "config.rules[0].registry={docker.io}", "missing property 'action'"),
        ("memory-policy", "config.classes[0].name=x", "missing property 'policy'"),
        ("topology-aware", "config.unlimitedBurstable=room", "at '/config/unlimitedBurstable'"),
    ],
)
def test_the_schema_checks_the_configuration_of_each_plugin(name: str, setting: str, named: str) -> None:
    process = render(name, setting)
    assert process.returncode == 1, process.stdout
    assert named in process.stderr


@pytest.mark.parametrize("name", [name for name in BUNDLED if NEEDS[name].config])
def test_each_plugin_accepts_the_example_configuration_of_its_chart(name: str, nri_runtime: FakeRuntime) -> None:
    entry = registry.find(name)
    assert entry is not None
    nri_runtime.add(registry.load(entry)(), idx="10", config=yaml.safe_dump(NEEDS[name].config))
    assert render(name, f"config={json.dumps(NEEDS[name].config)}").returncode == 0


@pytest.mark.parametrize("setting", ["nri.plugin.index=99", "maxUnavailable=10%", "global.anything=1"])
def test_the_schema_accepts_valid_values(setting: str) -> None:
    assert render("device-injector", setting).returncode == 0


@pytest.mark.parametrize(("value", "index"), [("05", "05"), ("5", "05"), ("0", "00"), ("35", "35"), ("null", "10")])
def test_an_index_has_two_digits(value: str, index: str) -> None:
    assert container(charted("device-injector", f"nri.plugin.index={value}"))["args"][:2] == ["-idx", index]


def test_the_differ_requires_two_indices_or_more() -> None:
    assert render("differ", "nri.plugin.index=10").returncode == 1
    assert container(charted("differ", "nri.plugin.index=05\\,50\\,95"))["args"][:2] == ["-indices", "05,50,95"]


def test_values_of_the_charts_of_nri_plugins_are_accepted() -> None:
    """The values of their memory-qos chart, without initContainerImage."""
    values = {
        "image": {"name": "registry.example/x", "pullPolicy": "Always"},
        "resources": {"cpu": "10m", "memory": "500Mi"},
        "nri": {"plugin": {"index": 9}, "runtime": {"patchConfig": False}},
        "podPriorityClassNodeCritical": False,
    }
    settings = [f"{key}={json.dumps(value)}" for key, value in values.items() if isinstance(value, dict)]
    text = charted("memory-qos", *settings, "podPriorityClassNodeCritical=false", *EMPTY_LISTS)
    assert container(text)["image"].startswith("registry.example/x:")
    assert container(text)["args"][:2] == ["-idx", "09"]
    assert container(text)["resources"] == {"requests": {"cpu": "10m", "memory": "500Mi"}}
    assert not {"priorityClassName", "tolerations", "affinity"} & set(pod(text))


def test_values_and_schema_have_the_same_keys() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema: Json = json.loads((CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    assert set(values) == set(schema["properties"]) - {"global"}
    for key in ("image", "log", "health", "nri", "follow"):
        assert set(values[key]) == set(schema["properties"][key]["properties"])


@pytest.mark.parametrize("name", PLUGINS)
def test_the_values_file_renders_the_same_as_the_plugins_name(name: str) -> None:
    values = yaml.safe_load((CHART / f"values/{name}.yaml").read_text())
    assert values.pop("plugin") == name
    assert charted(name, *(f"{key}={json.dumps(value)}" for key, value in values.items())) == charted(name)


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_has_either_no_network_or_the_network_of_the_node(name: str) -> None:
    manifests = objects(charted(name, "health.enabled=true"))
    arguments, probe = (
        container(charted(name, "health.enabled=true"))["args"],
        manifests["DaemonSet"]["spec"]["template"],
    )
    http = probe["spec"]["containers"][0]["readinessProbe"]["httpGet"]
    if NEEDS[name].host_network:
        assert "NetworkPolicy" not in manifests
        assert "--health-addr=127.0.0.1:8080" in arguments, "nothing of it may be open on the node's own addresses"
        assert http["host"] == "127.0.0.1"
    else:
        assert manifests["NetworkPolicy"]["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert "--health-addr=0.0.0.0:8080" in arguments
        assert "host" not in http


def test_patch_config_changes_the_runtime_before_the_plugin_starts() -> None:
    assert "initContainers" not in pod(charted("logger"))
    timeouts = ("config.pluginRegistrationTimeout=10s", "config.pluginRequestTimeout=5s")
    text = charted("logger", *(f"nri.runtime.{setting}" for setting in ("patchConfig=true", *timeouts)))
    (first,) = pod(text)["initContainers"]
    assert first["image"] == container(text)["image"] and first["securityContext"]["privileged"] is True
    arguments = ["--nri-plugin-registration-timeout=10s", "--nri-plugin-request-timeout=5s"]
    assert first["command"][-4:] == ["config-manager", "--root", "/host", "--restart"] and first["args"] == arguments
    assert {"name": "host-root", "hostPath": {"path": "/", "type": "Directory"}} in pod(text)["volumes"]
    assert container(text)["securityContext"]["privileged"] is False
    assert pod(text)["hostPID"] is True, "or systemctl gets no answer"


def test_a_digest_replaces_the_tag() -> None:
    digest = f"sha256:{'0f' * 32}"
    text = charted("logger", "image.name=registry.example/x", "image.tag=v1", f"image.digest={digest}")
    assert container(text)["image"] == f"registry.example/x@{digest}"


def test_host_paths_move_directories_of_the_node() -> None:
    text = charted("network-device-injector", "hostPaths.netns=/run/other/netns")
    (mount,) = [item for item in container(text)["volumeMounts"] if item["name"] == "netns"]
    assert mount["mountPath"] == "/run/other/netns"
    assert mount["mountPropagation"] == "HostToContainer"
    text = charted("hook-injector", "hostPaths.etc-hooks-d=/etc/site/hooks")
    mounts = {item["name"]: item["mountPath"] for item in container(text)["volumeMounts"]}
    volumes = {item["name"]: item["hostPath"]["path"] for item in pod(text)["volumes"]}
    assert (volumes["etc-hooks-d"], mounts["etc-hooks-d"]) == ("/etc/site/hooks", "/etc/containers/oci/hooks.d")


def test_additional_paths_are_mounted_read_only_at_the_same_path() -> None:
    text = charted("hook-injector", "readOnlyPaths={/usr/bin/hook,/usr/lib/hooks}")
    mounts = {item["name"]: item for item in container(text)["volumeMounts"]}
    volumes = {item["name"]: item["hostPath"]["path"] for item in pod(text)["volumes"] if "hostPath" in item}
    assert (mounts["path-0"]["mountPath"], volumes["path-0"]) == ("/usr/bin/hook", "/usr/bin/hook")
    assert mounts["path-1"] == {"name": "path-1", "mountPath": "/usr/lib/hooks", "readOnly": True}
