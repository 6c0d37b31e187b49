"""Any request becomes a valid JSON spec that plugins can see, or an error with the name of its field."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from nri.cri.convert import container
from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import ImageConfig, Machine, Options, Pod, container_spec, pod_spec
from nri.errors import RequestError
from nri.text import plain
from tests.property.cri_messages import messages

PATHS = {kind: f"/run/{kind}" for kind in ("network", "ipc", "uts", "pid", "user")}
OPTIONS = Options("c1", "/rootfs", machine=Machine(cgroup_v2=False))
#: Most random requests are refused for one field; without the usual suspects more of them come through.
SUSPECTS = ("privileged", "run_as_group", "capabilities", "namespace_options", "apparmor", "seccomp_profile_path")


@given(messages(pb.ContainerConfig, limit=5), messages(pb.PodSandboxConfig, limit=3), st.booleans())
def test_any_container_request_becomes_a_spec_or_an_error_with_its_field(
    config: pb.ContainerConfig, pod: pb.PodSandboxConfig, tame: bool
) -> None:
    if tame:
        for field in SUSPECTS:
            config.linux.security_context.ClearField(field)  # type: ignore[arg-type]
        del config.mounts[:], config.devices[:]
    before = config.SerializeToString(deterministic=True)
    try:
        spec, notes = container_spec(Pod("p1", pod, PATHS), config, ImageConfig(cmd=("run",)), OPTIONS)
    except RequestError as error:
        assert str(error).startswith(plain(error.field)) and error.reason and str(error).isprintable()
        return
    finally:
        assert config.SerializeToString(deterministic=True) == before
    assert json.loads(json.dumps(spec)) == spec
    assert all(note.isprintable() for note in notes)
    value_ = container(pb.ContainerStatus(id="c1"), config, spec, pod_id="p1").value
    assert list(value_.args) == spec["process"]["args"]
    assert [mount.destination for mount in value_.mounts] == [mount["destination"] for mount in spec["mounts"]]


@given(messages(pb.PodSandboxConfig))
def test_any_pod_request_becomes_a_spec_or_an_error_with_its_field(config: pb.PodSandboxConfig) -> None:
    try:
        spec = pod_spec("p1", config, ["/pause"], OPTIONS).spec
    except RequestError as error:
        assert str(error).startswith(plain(error.field)) and error.reason and str(error).isprintable()
        return
    assert json.loads(json.dumps(spec)) == spec
