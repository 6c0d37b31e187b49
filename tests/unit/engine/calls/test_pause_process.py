"""The pause program as a file. tests/engine runs the program."""

import struct

import pytest

from nri.engine.calls.pod_creation import pause_program, pause_spec
from nri.engine.support.errors import EngineError


@pytest.mark.parametrize(("architecture", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_the_program_is_one_segment_of_code_and_data(architecture: str, number: int) -> None:
    program = pause_program(architecture)
    kind, machine, _, entry, table = struct.unpack_from("<HHIQQ", program, 16)
    assert (program[:5], kind, machine, table) == (b"\x7fELF\x02", 2, number, 64)
    load, flags, _, address, _, size, memory = struct.unpack_from("<IIQQQQQ", program, 64)
    assert (load, flags, size, memory) == (1, 5, len(program), len(program))
    assert entry == address + 120
    assert program.endswith(struct.pack("<4Q", 1, 2, 0, 0))  # SIG_IGN, SA_NOCLDWAIT


def test_the_code_refers_to_the_signal_action() -> None:
    code = pause_program("x86_64")[120:-32]
    (offset,) = struct.unpack_from("<i", code, 13)
    assert code[10:13] == bytes.fromhex("488d35") and 17 + offset == len(code)
    words = struct.unpack("<13I", pause_program("aarch64")[120:-32])
    assert words[1] == 0x10000000 | (52 - 4) // 4 << 5 | 1
    assert words[12] & 0x3FFFFFF == (6 - 12) & 0x3FFFFFF


def test_an_unsupported_architecture_is_an_error_with_its_name() -> None:
    with pytest.raises(EngineError, match="s390x"):
        pause_program("s390x")


def test_the_pause_process_joins_pinned_namespaces() -> None:
    spec = {
        "hostname": "web",
        "linux": {"sysctl": {"a.b": "1"}, "namespaces": [{"type": "pid"}, {"type": "network"}], "resources": {}},
    }
    spec_ = pause_spec(spec, {"network": "/run/n"})
    assert spec_ == {"linux": {"namespaces": [{"type": "pid"}, {"type": "network", "path": "/run/n"}], "resources": {}}}
    assert spec["linux"]["sysctl"]  # type: ignore[index]
