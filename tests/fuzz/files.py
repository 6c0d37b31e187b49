"""Targets for files that people write: configuration, policies, manifests, cases, and files of container runtimes.

What is documented is one ConfigError, which can be printed; whatever is read can be printed as JSON, too.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from nri.api.default_validator import ValidatorConfig
from nri.cli.support.inputs import unhex
from nri.config import Source, parse_text, read
from nri.config.runtimes import containerd, crio, isulad
from nri.conformance.cases import MERGE_OPS, read_cases, run_merge_case
from nri.errors import ConfigError
from nri.kube.manifest import read_image_config, read_manifests
from nri.plugin_policy import file as policy_file
from nri.plugin_policy.policy import Policies
from tests.fuzz import inputs
from tests.fuzz.engine import Target
from tests.support.any_config import Config

__all__ = ["TARGETS", "printed"]


def printed(value: Any) -> None:
    """See that JSON can hold it and that it can be written."""
    json.dumps(value, ensure_ascii=False, default=str).encode(errors="surrogatepass")


def _source(data: bytes, form: Any) -> Source:
    return Source("input", data.decode(errors="surrogateescape"), form)


# -- nri.config -------------------------------------------------------------------------------------------------------


_CONFIG = {"a": "x", "b": 1.5, "c": {"x": 2, "names": ["n"]}, "d": {"k": {"x": 1}}, "e": "x", "f": "red", "g": "2s",
           "h": [1], "i": [1, 2], "j": ["a"], "k": {"z": 1.0}}  # fmt: skip
_KEYS = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "x", "names", "any", "A", "name-s", "<<")
_YAML = """\
a: x   # text
c: &c {x: 1, names: [a, "b"]}
d: {k: *c}
h: |
  many
  lines
g: 1m30s
"""
_TOML = """\
a = "x"
b = 1.5
i = [1, 2]
h = 2026-01-01T00:00:00Z
[c]
x = 0xff
[d.k]
names = ["a"]
[[z]]
"""


def _reads(form: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        tree = parse_text(_source(data, form))
        printed(tree) if not _holds_keys_of_tuples(tree) else None
        read(Config, [_source(data, form)])
        read(ValidatorConfig, [_source(data, form)])

    return check


def _holds_keys_of_tuples(tree: Any) -> bool:
    if isinstance(tree, dict):
        return any(isinstance(key, tuple) or _holds_keys_of_tuples(value) for key, value in tree.items())
    return isinstance(tree, list) and any(map(_holds_keys_of_tuples, tree))


# -- policy.toml ------------------------------------------------------------------------------------------------------

_POLICY = """\
[defaults]
timeout = "2s"
breaker = { misses = 5, retry = "30s" }
["10-pin"]
fail_request = ["CreateContainer"]
timeout = { default = 2, CreateContainer = "500ms" }
required = { exempt_namespaces = ["kube-*", "!prod"] }
keep_connected = true
shadow = false
restart = "always"
[ "10-pin".allow ]
events = ["CreateContainer"]
namespaces = ["*"]
fields = ["Env"]
["20-b".filters]
namespaces = ["a"]
"""


def _policy(data: bytes) -> None:
    for table in policy_file.parse(_source(data, "toml")).values():
        assert table.timeouts is not None


def _policy_read(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-f-") as folder:
        path = Path(folder, "policy.toml")
        path.write_bytes(data)
        policies = Policies(str(path))
        policies.for_plugin("10", "pin")
        printed(policies.to_json())


# -- manifests --------------------------------------------------------------------------------------------------------

_PROFILE = {"type": "Localhost", "localhostProfile": "p"}
_CONTAINER = {
    "name": "c", "image": "i", "command": ["a"], "args": ["b"], "envFrom": [{}],
    "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "hugepages-2Mi": "4Mi"}},
    "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
    "securityContext": {"runAsUser": 1, "runAsGroup": 2, "seccompProfile": _PROFILE},
}  # fmt: skip
_SPEC = {
    "containers": [_CONTAINER], "initContainers": [{"name": "i"}],
    "volumes": [{"name": "v", "hostPath": {"path": "/h"}}],
    "hostNetwork": True, "runtimeClassName": "r", "securityContext": {"supplementalGroups": [1, 2]},
}  # fmt: skip
_META = {"name": "web", "namespace": "n", "uid": "u", "labels": {"a": "b"}, "annotations": {"c": "d"}}
_PODS = (
    {"kind": "Pod", "metadata": _META, "spec": _SPEC},
    {"kind": "List", "items": [{"kind": "Pod", "metadata": _META, "spec": _SPEC}]},
    {"kind": "Deployment", "metadata": _META, "spec": {"template": {"metadata": {"labels": {}}, "spec": _SPEC}}},
    {"kind": "CronJob", "metadata": _META, "spec": {"jobTemplate": {"spec": {"template": {"spec": _SPEC}}}}},
)
_POD_KEYS = ("kind", "metadata", "spec", "items", "template", "jobTemplate", *_CONTAINER, *_SPEC, *_META,
             "limits", "requests", "cpu", "memory", "value", "valueFrom", "type", "path")  # fmt: skip


def _pod(data: bytes) -> None:
    for workload in read_manifests(_source(data, "auto")):
        for message in (workload.pod, *workload.containers):
            assert message.SerializeToString()


_IMAGES = (
    {"config": {"Env": ["A=1"], "Entrypoint": ["/e"], "Cmd": ["c"]}},
    [{"Config": {"Env": ["A=1"], "Cmd": None}}],
)


def _image(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(prefix="nri-f-") as file:
        file.write(data)
        file.flush()
        image = read_image_config(file.name)
    source = Source("pod", json.dumps(_PODS[0]), "json")
    assert read_manifests(source, image)[0].containers[0].SerializeToString()


# -- recorded cases ---------------------------------------------------------------------------------------------------

_CASES = (
    {"id": "1", "op": "create", "pod": {"id": "p"}, "container": {"id": "c", "env": ["A=1"]},
     "plugins": [{"index": "10", "name": "a", "adjust": {"env": [{"key": "A", "value": "2"}]}}],
     "expect": {"seen": [{"id": "c"}], "adjust": {}, "update": [], "owners": {}}},
    {"id": "2", "op": "update", "container": {"id": "c"}, "resources": {"cpu": {"shares": {"value": "5"}}},
     "plugins": [{"index": "10", "name": "a", "error": "x",
                  "update": [{"container_id": "c", "linux": {"resources": {}}}]}],
     "expect": {"seen": [], "update": [], "error": "x"}},
    {"id": "3", "op": "stop", "container": {"id": "c"}, "plugins": [{"index": "10", "name": "a", "error": None}],
     "expect": {"update": []}},
    {"id": "4", "op": "spec", "expect": {}},
)  # fmt: skip
_CASE_KEYS = ("id", "op", "pod", "container", "plugins", "index", "name", "adjust", "env", "key", "value", "update",
              "error", "expect", "seen", "owners", "resources", "evict", "linux", "container_id")  # fmt: skip


def _conformance(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(prefix="nri-f-") as file:
        file.write(data)
        file.flush()
        for case in read_cases(file.name):
            if case["op"] in MERGE_OPS:
                printed(str(run_merge_case(case)))


# -- files of container runtimes --------------------------------------------------------------------------------------

_RUNTIMES = (
    (
        b'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\ndisabled_plugins = ["io.containerd.nri.v1.nri"]\n'
        b'[plugins."io.containerd.nri.v1.nri"]\ndisable = false\nsocket_path = "/x"\nplugin_request_timeout = "2s"\n'
        b'[plugins."io.containerd.nri.v1.nri".default_validator]\nenable = true\n'
    ),
    b'[crio.nri]\nenable_nri = true\nnri_listen = "/run/x"\nnri_plugin_request_timeout = "2s"\n',
    b'{"nri-support": true, "nri-plugin-request-timeout": 5, "disable-connections": false}',
)
_PLACES = ("etc/containerd/config.toml", "etc/crio/crio.conf", "etc/isulad/daemon.json")


def _runtimes(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-f-") as root:
        for place in _PLACES:
            path = Path(root, place)
            path.parent.mkdir(parents=True)
            path.write_bytes(data)
        for reader in (containerd.read, crio.read, isulad.read):
            printed(str(reader(root)))


def _hex(data: bytes) -> None:
    from nri.cli.errors import Failure

    try:
        unhex(data.decode(errors="surrogateescape"))
    except Failure as failure:
        assert failure.code == 2


_ERROR = (ConfigError,)
_LINES = inputs.documents(_CASES, _CASE_KEYS).map(lambda data: data.replace(b"\n", b" "))
TARGETS = (
    Target("json", inputs.documents([_CONFIG], _KEYS), _reads("json"), _ERROR),
    Target("yaml", inputs.texts([_YAML]) | inputs.documents([_CONFIG], _KEYS), _reads("yaml"), _ERROR),
    Target("toml", inputs.texts([_TOML]), _reads("toml"), _ERROR),
    Target("policy", inputs.texts([_POLICY]), _policy, _ERROR),
    Target("policies", inputs.texts([_POLICY]), _policy_read, _ERROR, 0.5),
    Target("pod", inputs.documents(_PODS, _POD_KEYS), _pod, _ERROR),
    Target("image", inputs.documents(_IMAGES, ("config", "Config", "Env", "Entrypoint", "Cmd")), _image, _ERROR),
    Target("conformance", _LINES | st.binary(max_size=20), _conformance, _ERROR),
    Target("runtimes", inputs.spoiled(_RUNTIMES, [w.encode() for w in inputs.WORDS]), _runtimes, (), 0.5),
    Target("hex", inputs.texts(["0a0b", "\\x0a 0b", "0x0a:0b|0c,"]), _hex),
)  # fmt: skip
