"""Targets for what comes to the engine from images, network plugins, OCI runtimes and conmon.

What is documented is one InvalidRequest with the image's name for what an image has, and a ValueError without one for
the answers of programs, whose callers name them. What is read can be told to clients of the CRI, which takes text only.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from nri.config.syntax import parse_json
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.images import image_message
from nri.engine.images.image import Image, account_file
from nri.engine.images.manifest import (
    config_digest,
    container_config,
    diff_ids,
    for_this_machine,
    is_index,
    layers,
    not_for_this_machine,
    other_machine,
    parse,
)
from nri.engine.images.reference import DIGEST, parse_reference
from nri.engine.images.transport import fatal_message
from nri.engine.machine import with_features
from nri.engine.network.configuration import parse_network
from nri.engine.network.results import PortMapping, capability_arguments, parse_result, plugin_error
from nri.engine.process.conmon import PERSIST, parse_sync
from nri.engine.process.exits import read_exit
from nri.engine.process.runtime import parse_state
from nri.engine.process.runtime_log import cause_of
from nri.engine.process.stats import parse_interfaces
from nri.engine.spec import Machine, find_account
from nri.engine.spec.user import RequestedUser
from nri.engine.support.errors import EngineError, InvalidRequest, NotFound
from nri.errors import RequestError
from nri.files import private_folder
from tests.fuzz import inputs
from tests.fuzz.engine import Target

__all__ = ["TARGETS"]

_DIGEST = "sha256:" + "aa" * 32
_INDEX = "application/vnd.oci.image.index.v1+json"
_DOCUMENTS = [
    {"mediaType": _INDEX, "manifests": [
        {"mediaType": _INDEX, "digest": _DIGEST},
        {"digest": _DIGEST, "size": 1, "platform": {"os": "linux", "architecture": "amd64", "variant": "v8"}},
    ]},
    {"schemaVersion": 2, "config": {"digest": _DIGEST}, "layers": [{"digest": _DIGEST, "size": 5}]},
    {"rootfs": {"type": "layers", "diff_ids": [_DIGEST]}, "config": {
        "User": "1:2", "Env": ["A=1"], "Entrypoint": ["sh"], "Cmd": ["x"], "WorkingDir": "/", "StopSignal": "TERM",
        "Labels": {"a": "b"}}},
]  # fmt: skip
_DOCUMENT_KEYS = ("mediaType", "manifests", "digest", "platform", "variant", "config", "layers", "size", "rootfs",
                  "diff_ids", "User", "Env", "Cmd", "Labels", "Config", "layerS")  # fmt: skip
_RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "br0"}, {"name": "eth0", "mac": "bb:00", "sandbox": "/x"}],
    "ips": [{"address": "10.0.0.2/24", "gateway": "10.0.0.1", "interface": 1}, {"address": "fd00::2/64"}],
}
_REFUSAL = {"code": 7, "msg": "no", "details": "luck"}
_NETWORK = {"cniVersion": "1.0.0", "cniVersions": ["1.0.0"], "name": "n", "disableCheck": True, "plugins": [
    {"type": "bridge", "ipam": {"type": "host-local"}, "capabilities": {"portMappings": True}}]}  # fmt: skip
_STATE = {"id": "a", "pid": 7, "status": "running", "bundle": "/b"}
_FEATURES = {"mountOptions": ["rro"], "linux": {"mountExtensions": {"idmap": {"enabled": True}}}}
_LOG = (
    '{"level": "error", "msg": "no"}\n{"level": "warning", "msg": ["x"]}\ntime="x" level=error msg="it is \\"so\\""\n'
)
_ACCOUNTS = "root:x:0:0:root:/root:/bin/sh\nme:x:5:6::/:\nwheel:x:10:me,you\n"
_DEVICES = "Inter-|   Receive  \n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"


def _document(data: bytes) -> None:
    """Whatever its maker says that it is, it may be asked for as any of the three."""
    parsed = parse(data, "evil:1")
    for ask in (is_index, for_this_machine, other_machine, config_digest, layers, diff_ids, container_config):
        with suppress(InvalidRequest):
            answer = ask(parsed, "evil:1")
            if ask is config_digest:
                assert DIGEST.fullmatch(str(answer))
            elif ask is for_this_machine:
                listed, other_entries = for_this_machine(parsed, "evil:1")
                assert all(DIGEST.fullmatch(entry.digest) for entry in listed)
                assert str(not_for_this_machine("evil:1", other_entries)).isprintable()
            elif isinstance(answer, dict):
                image = Image(_DIGEST, config=answer)
                image_message(image).SerializeToString()
                pb.Image(repo_tags=[*image.entrypoint, *image.cmd, *image.env, image.working_dir, image.stop_signal],
                         repo_digests=[*image.labels, *image.labels.values()]).SerializeToString()  # fmt: skip


def _accounts(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="nri-f-") as folder:
        Path(folder, "passwd").write_bytes(data)
        text = account_file(Path(folder), "passwd")
    for user in (0, 5, "me", "root"):
        with suppress(RequestError, NotFound, EngineError):
            account = find_account(RequestedUser(user, None, "image.User"), text, text)
            assert 0 <= account.uid < 1 << 32 and 0 <= account.gid < 1 << 32


def _result(data: bytes) -> None:
    answer = parse_json(data)
    if isinstance(answer, dict):
        plugin_error(answer)
        result = parse_result(answer, "eth0")
        pb.PodIP(ip=" ".join([*result.addresses, *result.gateways, result.mac])).SerializeToString()
        assert all(text.isprintable() and " " not in text for text in (*result.addresses, *result.gateways))


def _network(data: bytes) -> None:
    for row in parse_network(data.decode()).plugins:
        capability_arguments(row, [PortMapping(80, 80)], dns={"servers": ["a"]})
        assert isinstance((row.get("ipam") or {}).get("type", ""), object)


def _runtime(data: bytes) -> None:
    for ask in (parse_state, parse_sync):
        with suppress(ValueError):
            ask(data)
    features = parse_json(data)
    if isinstance(features, dict):
        with_features(Machine(), features)


def _texts_of_programs(data: bytes) -> None:
    """Logs, last words and files, of which anything is taken for what it is."""
    fatal_message(data.decode(errors="replace"))
    with suppress(ValueError):
        parse_interfaces(data.decode(errors="replace"))
    with tempfile.TemporaryDirectory(prefix="nri-f-") as folder:
        for file in (Path(folder, "log"), private_folder(Path(folder, PERSIST)) / "log"):
            file.write_bytes(data)
        cause_of(data, Path(folder, "log"))
        exit_code = read_exit("log", Path(folder))
        assert exit_code is None or pb.ContainerStatus(exit_code=exit_code.code).exit_code == exit_code.code


TARGETS = (
    Target("image-document", inputs.documents(_DOCUMENTS, _DOCUMENT_KEYS), _document, (InvalidRequest,), 2),
    Target("image-name", inputs.texts(["docker.io/library/a:1", f"h:5000/a/b@{_DIGEST}"]),
           lambda data: parse_reference(data.decode(errors="replace")), (InvalidRequest,)),
    Target("image-accounts", inputs.texts([_ACCOUNTS]), _accounts, (), 0.5),
    Target("cni-result", inputs.documents([_RESULT, _REFUSAL], (*_RESULT, *_REFUSAL)), _result, (ValueError,)),
    Target("cni-network", inputs.documents([_NETWORK], (*_NETWORK, "type", "ipam")), _network, (ValueError,)),
    Target("oci-answers", inputs.documents([_STATE, [_STATE], _FEATURES, {"data": 7}, {"data": -1, "message": "no"}],
                                           (*_STATE, *_FEATURES, "data", "message")), _runtime, (ValueError,)),
    Target("oci-texts", inputs.texts([_LOG, _DEVICES, "137"]), _texts_of_programs, (), 0.5),
)  # fmt: skip
