"""The table of targets: every parser of the package whose input comes from elsewhere.

Each row says what the input is made of, what is done with it, and which exceptions are documented there. Those that
need a connection are in `tests.fuzz.plugin_side` and `tests.fuzz.runtime_side`, those of files in `tests.fuzz.files`;
here are bytes and words.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress

from hypothesis import strategies as st

from nri.agent.koordinator import cpu_burst, documents
from nri.agent.koordinator.profile import PARTS, POD_ANNOTATIONS
from nri.api import cpuset, naming
from nri.api import messages as m
from nri.api.events import EventMask
from nri.api.selectors import Pattern, Selector
from nri.config.duration import format_duration, parse_duration
from nri.errors import TEXT_LENGTH, ConfigError, RemoteProtocolError, describe
from nri.host.cgroups import drivers
from nri.kube import quantity
from nri.kube.requests import annotated
from nri.mux import Demux
from nri.mux.frames import cut, pack
from nri.placement.affinity import affinities
from nri.placement.containers import Container, NoPlace, Pod
from nri.placement.expressions import expand
from nri.text import plain
from nri.trace import blocks
from nri.trace.catalog import Catalog
from nri.trace.dissection import Dissector
from nri.trace.history import Trace
from nri.trace.pb import api_pb2 as t
from nri.ttrpc import frames
from nri.ttrpc.connection import ClientSide, ServerSide
from nri.ttrpc.envelope import Request, decode_request, decode_response, encode_request, encode_response, request_prefix
from nri.wire import bytes_field, iter_fields
from tests.fuzz import (
    agent_hooks,
    agent_sources,
    containers,
    files,
    hook_protocol,
    hooks_and_devices,
    injectors,
    inputs,
    merges,
    oci,
    plugin_side,
    runtime_side,
    streams,
)
from tests.fuzz.engine import Target
from tests.support.every_error import every

__all__ = ["TARGETS"]

_CREATE = encode_request(request_prefix(naming.PLUGIN_SERVICE, "CreateContainer"), b"\x0a\x02\x0a\x00", 2 * 10**9)
_REGISTER = encode_request(
    request_prefix(naming.RUNTIME_SERVICE, "RegisterPlugin"),
    m.RegisterPluginRequest(plugin_name="a", plugin_idx="10").SerializeToString(),
    metadata=[("k", "v")],
)
_REFUSED = encode_response(code=2, message="no")
_FRAMES = [
    frames.pack(1, frames.REQUEST, _CREATE) + frames.pack(3, frames.REQUEST, _REGISTER),
    frames.pack(1, frames.RESPONSE, _REFUSED) + frames.pack(3, frames.RESPONSE, b""),
    frames.pack(1, frames.REQUEST, _CREATE, 2)
    + frames.pack(1, frames.DATA, b"x")
    + frames.pack(1, frames.DATA, b"", 5),
]
_TRUNK = [cut(2, each) for each in _FRAMES] + [cut(1, bytes(5000)) + pack(2, _FRAMES[0])]
_RECORDS = b"".join(
    bytes_field(1, t.Record(kind=kind, event="StopContainer", plugin="10-a", serial=1).SerializeToString())
    for kind in (t.OPENED, t.BEGINS, t.ASKED, t.ANSWERED, t.MERGED, t.ENDS)
)
_TRACE = blocks.MAGIC + blocks.pack(_RECORDS, 6, 1, 2) * 2


def _pieces(data: bytes) -> list[bytes]:
    """The input as it may come from a socket: the first byte says in pieces of how many."""
    size = data[0] % 32 + 1 if data else 1
    return [data[start : start + size] for start in range(1, len(data), size)]


#: A field's number in more bytes than a varint has, and its value.
_LONG = st.integers(9, 90).map(lambda more: b"\x88" + bytes([128] * more) + b"\0\1")


def _wire(data: bytes) -> None:
    endless = len(data) > 10 and min(data[:10]) > 127
    for _, kind, value in iter_fields(data):
        assert not endless
        assert kind in (0, 1, 2, 5)
        assert isinstance(value, int) == (kind == 0)


def _trace(data: bytes) -> None:
    """A file of blocks, and a file with a whole block of these bytes: damage is a problem, and never raised."""
    for content in (data, blocks.MAGIC + blocks.pack(data, 1, 1, 2)):
        with tempfile.NamedTemporaryFile(prefix="nri-f-") as file:
            file.write(content)
            file.flush()
            trace = Trace(file.name)
            for event in trace.events():
                assert event.container is None or event.names(event.container.id)
            assert len(trace.problems) <= 1000


def _mux(data: bytes) -> None:
    in_pieces, demux = b"", Demux((1, 2))
    for piece in _pieces(data):
        in_pieces += b"".join(chunk for _, chunk in demux.receive(piece))
    assert in_pieces == b"".join(chunk for _, chunk in Demux((1, 2)).receive(data[1:]))


def _envelope(data: bytes) -> None:
    try:
        request = decode_request(data)
    except RemoteProtocolError:
        pass
    else:
        second = encode_request(
            request_prefix(request.service, request.method), request.payload, request.timeout_ns, request.metadata
        )
        assert repr(decode_request(second)) == repr(request)
    response = decode_response(data)
    second = encode_response(response.payload if not response.code else b"", response.code, response.message)
    assert decode_response(second).code == response.code


def _ttrpc(data: bytes) -> None:
    server, client = ServerSide(), ClientSide()
    for _ in range(3):
        client.request("s", "m", b"")
    client.open(Request("s", "m", b""), sends=True, receives=True)
    for piece in _pieces(data):
        for item in server.receive(piece):
            stream = item.stream_id
            if isinstance(item, Request):
                assert server.respond(stream)
        for item in client.receive(piece):
            assert item.stream_id in (1, 3, 5, 7)


_CATALOG = Catalog()


def _decode(data: bytes) -> None:
    for with_mux in (None, True, False):
        for frame in Dissector(_CATALOG).run(data, with_mux=with_mux):
            assert 0 <= frame["offset"] <= len(data)
            files.printed(frame)


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _errors(data: bytes) -> None:
    """Whatever texts others give: an error is one line that prints, of a bounded length."""
    text = _text(data)
    for entry in (text, text * (1 + TEXT_LENGTH // max(1, len(text)))):
        for error in every(entry):
            for line in (str(error), describe(error)):
                assert line.isprintable() and len(line) <= TEXT_LENGTH, type(error)


def _placement(data: bytes) -> None:
    """Annotations and texts of the placement policies: a bad annotation is told, or refuses the container."""
    text = _text(data)
    keys = ("resource-policy.nri.io/affinity", "memory-type.resource-policy.nri.io", "noderesource.dev/resources")
    main = Container("c", "main", Pod("p", "p", annotations=dict.fromkeys(keys, text)))
    with suppress(NoPlace):
        affinities(main)
    main.memory_mask()
    annotated(main.pod.annotations, "main")
    expand(text, main, main.pod)


def _cpuset(data: bytes) -> None:
    numbers = cpuset.parse(_text(data))
    assert cpuset.parse(cpuset.to_text(numbers)) == numbers


def _selector(data: bytes) -> None:
    for kind in (Pattern, Selector):
        try:
            parsed = kind.parse(_text(data))
        except ValueError:
            continue
        assert kind.parse(str(parsed)) == parsed
        if isinstance(parsed, Selector):
            parsed.holds({"a": "b", "": ""})
        else:
            parsed.fits("prod")


def _events(data: bytes) -> None:
    mask = EventMask.parse(_text(data))
    assert EventMask.parse(str(mask)) == mask


def _duration(data: bytes) -> None:
    seconds = parse_duration(_text(data))
    format_duration(seconds)


def _plugin_name(data: bytes) -> None:
    index, name = naming.split_file_name(_text(data))
    assert plain(naming.full_name(index, name)).startswith(index)


def _cgroup_path(data: bytes) -> None:
    text = _text(data)
    drivers.kube_qos_of(text)
    parsed = drivers.parse(text)
    path = drivers.expand(text)
    assert drivers.expand(path) == path
    if parsed is not None and parsed.container_id is not None:
        assert parsed.container_id in text


def _loop_annotations(data: bytes) -> None:
    """What a pod says to the agent's loops: told as errors, never raised, whatever it is."""
    text, errors = _text(data), list[str]()
    rules = documents.NodeSlo(PARTS)
    for annotation in POD_ANNOTATIONS:
        try:
            value = annotation.value(rules, "LS", {annotation.key: text})
        except ValueError as error:
            errors.append(str(error))
        else:
            policies = ("none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto")
            assert annotation is not cpu_burst.POD_BURST or value.policy in policies
    assert all(error.startswith("annotation koordinator.sh/") for error in errors)


def _words(*samples: str) -> st.SearchStrategy[bytes]:
    return inputs.texts(samples) | st.text(max_size=12).map(lambda text: text.encode(errors="surrogatepass"))


_ROWS = (
    Target(
        "wire", inputs.fields | _LONG | inputs.spoiled(_FRAMES) | st.binary(max_size=40), _wire, (RemoteProtocolError,)
    ),
    Target("trace", inputs.spoiled([_TRACE, _RECORDS]) | inputs.fields, _trace, (ConfigError,)),
    Target("mux", inputs.spoiled(_TRUNK) | st.binary(max_size=60), _mux, (RemoteProtocolError,)),
    Target(
        "envelope", inputs.spoiled([_CREATE, _REGISTER, _REFUSED]) | inputs.fields, _envelope, (RemoteProtocolError,)
    ),
    Target("ttrpc", inputs.spoiled(_FRAMES) | st.binary(max_size=60), _ttrpc, (RemoteProtocolError,)),
    Target("decode", inputs.spoiled([*_TRUNK, *_FRAMES]) | inputs.fields | st.binary(max_size=60), _decode),
    *plugin_side.TARGETS,
    *runtime_side.TARGETS,
    *merges.TARGETS,
    *files.TARGETS,
    *hooks_and_devices.TARGETS,
    *hook_protocol.TARGETS,
    *injectors.TARGETS,
    *oci.TARGETS,
    *agent_hooks.TARGETS,
    *agent_sources.TARGETS,
    *streams.TARGETS,
    *containers.TARGETS,
    Target(
        "quantity",
        _words("500m", "1.5Gi", "2e3", "-.5", "1Ei"),
        lambda data: quantity.parse(_text(data)),
        (ValueError,),
    ),
    Target(
        "placement",
        _words(
            "main: [helper]", "- match: {key: name, operator: In, values: [a]}", "${pod/labels/a}-$name", "dram,hbm"
        ),
        _placement,
        (ValueError,),
    ),
    Target("cpuset", _words("0-3,8", "0-15:2/4", "1023"), _cpuset, (ValueError,)),
    Target("selectors", _words("prod-*", "!prod", "key=value", "!key", "a!=b*"), _selector),
    Target(
        "events",
        _words("pod,container", "CreateContainer", "all", "StopContainer, post_start_container"),
        _events,
        (ValueError,),
    ),
    Target("duration", _words("1m30s", "-.5h", "250ms", "2us"), _duration, (ValueError,)),
    Target(
        "cgroup-path",
        _words(
            "kubepods-besteffort-pod1_2.slice:cri-containerd:ab",
            "/kubepods/burstable/pod1-2/crio-ab",
            "kubepods.slice/kubepods-pod1.slice/docker-ab.scope",
        ),
        _cgroup_path,
        (ValueError,),
    ),
    Target(
        "loop-annotations",
        _words('{"policy": "auto"}', '{"lowLimitPercent": 30}', '{"blocks": [{"name": "/dev/sda", "ioCfg": {}}]}'),
        _loop_annotations,
    ),
    Target("errors", _words("no such key", "10-pin"), _errors, share=0.2),
    Target("plugin-name", _words("10-pin", "99-a.b_c+d"), _plugin_name, (ValueError,)),
)

#: All targets by name.
TARGETS = {target.name: target for target in _ROWS}
