"""`image-policy` allows and denies images by name, digest, namespace and signature policy."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.plugins.image_policy.plugin import ImagePolicy
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.cri_server import CriServer

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
KEY = "io.kubernetes.cri.image-name"


def create(runtime: FakeRuntime, annotation: str, namespace: str = "default", **image: str) -> None:
    annotations = {KEY: annotation} if annotation else {}
    container = make_container("app", annotations=annotations)
    container.image.CopyFrom(m.Image(**image))
    runtime.create_container(make_pod("web", namespace=namespace), container)


def is_refused(runtime: FakeRuntime, *args: Any, **image: str) -> bool:
    try:
        create(runtime, *args, **image)
    except nri.PluginError:
        return True
    return False


def add(runtime: FakeRuntime, **config: Any) -> None:
    runtime.add(ImagePolicy(), idx="10", config=json.dumps(config))


#: A rule that denies, and names with whether it applies.
RULES: list[tuple[dict[str, Any], dict[str, bool]]] = [
    (
        {"registry": ["evil.example"]},
        {"evil.example/a": True, "EVIL.example:443/a": True, "evil.example:5000/a": False, "busybox": False},
    ),
    ({"registry": ["docker.io"]}, {"busybox": True, "index.docker.io/a/b": True, "quay.io/busybox": False}),
    ({"registry": ["!docker.io"]}, {"busybox": False, "quay.io/busybox": True}),
    (
        {"name": ["docker.io/library/*"]},
        {"busybox": True, "busybox:1.36": True, f"busybox@{DIGEST}": True, "docker.io/other/busybox": False},
    ),
    ({"name": ["docker.io/library/busybox:1.*"]}, {"busybox:1.36": True, "busybox": False, f"busybox@{DIGEST}": False}),
    ({"name": ["*", "!*/busybox"]}, {"busybox:1.36": False, "alpine": True}),
    ({"digest": [DIGEST]}, {f"busybox@{DIGEST}": True, f"busybox:1@{DIGEST}": True, f"busybox@{OTHER}": False}),
    ({"namespaces": ["kube-*"]}, {"busybox": False}),
    ({"namespaces": ["default"], "name": ["*/alpine"]}, {"busybox": False, "alpine": True}),
]


@pytest.mark.parametrize(("rule", "names"), RULES)
def test_a_rule_applies_if_all_its_keys_match(nri_runtime: FakeRuntime, rule: dict[str, Any], names: Any) -> None:
    add(nri_runtime, rules=[{"action": "deny", **rule}])
    assert {name: is_refused(nri_runtime, name) for name in names} == names


def test_the_first_rule_decides_then_the_default(nri_runtime: FakeRuntime) -> None:
    rules = [{"namespaces": ["kube-system"], "action": "allow"}, {"registry": ["quay.io"], "action": "allow"}]
    add(nri_runtime, rules=rules, default="deny")
    create(nri_runtime, "busybox", "kube-system")
    create(nri_runtime, "quay.io/a/b")
    with pytest.raises(nri.PluginError) as raised:
        create(nri_runtime, "busybox")
    cause = 'container default/web/app: image "busybox" in namespace "default": deny by default of the image policy'
    assert cause in str(raised.value)


def test_a_warning_is_logged_and_the_container_is_created(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    add(nri_runtime, rules=[{"name": ["*/busybox"], "action": "warn"}])
    create(nri_runtime, "busybox")
    assert 'image "busybox" in namespace "default": warn by rule 1 of the image policy' in caplog.text


@pytest.mark.parametrize("name", ["", "busybox:!", "a" * 600, "sha256:" + "c" * 64, "d" * 64])
@pytest.mark.parametrize("outcome", ["allow", "warn", "deny"])
def test_an_unknown_image_has_the_configured_outcome(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture, name: str, outcome: str
) -> None:
    add(nri_runtime, unknown_image=outcome, rules=[{"name": ["*"], "action": "allow"}])
    assert is_refused(nri_runtime, name) is (outcome == "deny")
    assert ("(unknown_image)" in caplog.text) is (outcome == "warn")


def test_an_image_without_a_known_digest_is_unknown(nri_runtime: FakeRuntime) -> None:
    add(nri_runtime, unknown_image="deny", rules=[{"digest": [DIGEST], "action": "allow"}])
    with pytest.raises(nri.PluginError, match="rule 1 requires its digest, but cri_socket is not configured"):
        create(nri_runtime, "busybox")


def test_the_reported_digest_counts_and_an_id_is_not_a_digest(nri_runtime: FakeRuntime) -> None:
    add(nri_runtime, unknown_image="deny", rules=[{"digest": [DIGEST], "action": "allow"}], default="deny")
    create(nri_runtime, "", name="busybox", digest=f"docker.io/library/busybox@{DIGEST}", config_digest=OTHER)
    create(nri_runtime, "", name="busybox", digest=DIGEST)
    assert is_refused(nri_runtime, "", name="busybox", digest=DIGEST, config_digest=DIGEST)


def test_without_an_answer_of_the_cri_the_image_is_unknown(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    socket = str(tmp_path / "no.sock")
    add(nri_runtime, unknown_image="deny", cri_socket=socket, rules=[{"digest": [DIGEST], "action": "allow"}])
    with pytest.raises(nri.PluginError, match=r"no\.sock: no such file"):
        create(nri_runtime, "busybox")


def test_the_cri_returns_the_digest_of_a_name_and_the_names_of_an_id(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    server = CriServer()
    server.images["busybox"] = pb.Image(id=OTHER, repo_digests=[f"docker.io/library/busybox@{DIGEST}"])
    server.images[OTHER] = pb.Image(id=OTHER, repo_tags=["docker.io/library/busybox:1", "evil.example/busybox:1"])
    server.images[OTHER].repo_digests.append(f"docker.io/library/busybox@{DIGEST}")
    server.images["c" * 64] = pb.Image(id=OTHER, repo_tags=["docker.io/library/busybox:1"])
    server.images["d" * 64] = pb.Image(id=OTHER)
    server.images["e" * 64] = pb.Image(id=OTHER, repo_tags=[f"docker.io/library/busybox:{n}" for n in range(65)])
    rules = [{"registry": ["evil.example"], "action": "deny"}, {"digest": [DIGEST], "action": "allow"}]
    with server.listening(tmp_path / "cri.sock") as socket:
        add(nri_runtime, unknown_image="deny", default="deny", cri_socket=socket, rules=rules)
        create(nri_runtime, "busybox")
        causes = {
            OTHER: 'image "evil.example/busybox:1" in namespace "default": deny by rule 1',
            "c" * 64: "rule 2 requires its digest, but it has none",
            "d" * 64: "has no name",
            "e" * 64: "it has more than 64 names",
            "alpine": "rule 2 requires its digest, but the CRI does not have the image",
        }
        for name, cause in causes.items():
            with pytest.raises(nri.PluginError, match=cause):
                create(nri_runtime, name)


def test_only_the_annotation_of_the_runtime_counts() -> None:
    for name, key in (("cri-o", "io.kubernetes.cri-o.ImageName"), ("containerd", KEY)):
        with FakeRuntime(name=name) as runtime:
            add(runtime, unknown_image="deny", default="allow")
            runtime.create_container(make_pod(), make_container(annotations={key: "busybox"}))
            other = KEY if name == "cri-o" else "io.kubernetes.cri-o.ImageName"
            with pytest.raises(nri.PluginError, match="the runtime reports neither an image nor the annotation"):
                runtime.create_container(make_pod(), make_container(annotations={other: "busybox"}))


ACCEPT, REJECT, SIGNED = {"type": "insecureAcceptAnything"}, {"type": "reject"}, {"type": "signedBy", "keyPath": "/k"}
SIGSTORE = {"type": "sigstoreSigned", "keyPath": "/k"}
SCOPES = {
    "docker.io/library/busybox:1.36": [REJECT],
    "docker.io/library": [ACCEPT],
    "docker.io": [SIGNED],
    "*.example": [ACCEPT],
    "bad.registry.example:5000": [ACCEPT, REJECT],
    "quay.io/signed": [SIGSTORE],
    "evil.example:443/a": [REJECT],
}


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("busybox:1.36", 'scope "docker.io/library/busybox:1.36" rejects it'),
        ("busybox:1.37", ""),
        ("other/busybox", 'scope "docker.io" requires signedBy, which image-policy cannot verify'),
        ("good.registry.example/a", ""),
        ("bad.registry.example:5000/a/b", 'scope "bad.registry.example:5000" rejects it'),
        ("quay.io/signed/a", 'scope "quay.io/signed" requires sigstoreSigned'),
        ("quay.io/other", "default rejects it"),
        ("EVIL.example/a/b", 'scope "evil.example/a" rejects it'),
    ],
)
def test_the_most_specific_scope_of_the_signature_policy_decides(
    nri_runtime: FakeRuntime, tmp_path: Path, name: str, cause: str
) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"default": [REJECT], "transports": {"docker": SCOPES, "dir": {"": [ACCEPT]}}}))
    add(nri_runtime, default="signature_policy", signature_policy=str(path))
    if not cause:
        create(nri_runtime, name)
        return
    with pytest.raises(nri.PluginError) as raised:
        create(nri_runtime, name)
    assert cause in str(raised.value)


def test_requirements_that_cannot_be_verified_are_named_at_the_start(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"default": [ACCEPT], "transports": {"docker": SCOPES}}))
    add(nri_runtime, default="signature_policy", signature_policy=str(path))
    assert "these requirements reject images: signedBy of docker.io, sigstoreSigned of quay.io/signed" in caplog.text


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"rule": []}, "rule: unknown key"),
    ({"rules": [{"action": "allow", "name": ["busybox"]}]}, '"busybox" is not a full name'),
    ({"rules": [{"action": "allow", "registry": ["docker.io/library"]}]}, "is not a registry"),
    ({"rules": [{"action": "allow", "digest": ["sha256:1"]}]}, "is not a digest"),
    ({"rules": [{"action": "refuse"}]}, "action"),
    ({"rules": [{"name": ["*"]}]}, "action"),
    ({"default": "signature_policy"}, "requires the key signature_policy"),
    ({"cri_timeout": "2h"}, "too long"),
    ({"cri_timeout": 0}, "too short"),
    ({"signature_policy": "/nonexistent/policy.json"}, "cannot read it"),
]


@pytest.mark.parametrize(("config", "message"), MISTAKES)
def test_an_invalid_configuration_prevents_the_start(
    nri_runtime: FakeRuntime, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(nri.NriError, match=message):
        add(nri_runtime, **config)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"default": []}', '{"default": [{}]}', '{"default": [1]}',
     '{"default": [{"type": "reject"}], "transports": []}',
     '{"default": [{"type": "reject"}], "transports": {"docker": {"": {}}}}'],
)  # fmt: skip
def test_an_invalid_signature_policy_is_an_error_with_its_file(
    nri_runtime: FakeRuntime, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(nri.NriError, match=r"policy\.json"):
        add(nri_runtime, signature_policy=str(path))
