"""The content of a pod's hosts and resolver files."""

from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.pod_creation import PodFiles, hosts_text, resolv_text


def test_a_pods_own_name_has_its_addresses() -> None:
    assert hosts_text("web", ["10.0.0.2", "fd00::2"]).splitlines() == [
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "10.0.0.2\tweb",
        "fd00::2\tweb",
    ]
    assert "10.0.0.2" not in hosts_text("", ["10.0.0.2"])


def test_servers_searches_and_options_are_written_in_resolver_format() -> None:
    dns = pb.DNSConfig(servers=["10.0.0.10", "1.1.1.1"], searches=["a.local", "local"], options=["ndots:5"])
    assert resolv_text(dns) == "search a.local local\nnameserver 10.0.0.10\nnameserver 1.1.1.1\noptions ndots:5\n"
    assert resolv_text(pb.DNSConfig()) == ""


def test_files_of_the_node_in_another_encoding_are_copied_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "127.0.0.1 m\udcfcller\n")
    config = pb.PodSandboxConfig()
    config.linux.security_context.namespace_options.network = pb.NODE
    PodFiles(tmp_path, config, "web", dry=True).write(())
    for name in ("hosts", "resolv.conf"):
        assert (tmp_path / name).read_bytes() == b"127.0.0.1 m\xfcller\n"
