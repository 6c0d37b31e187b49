"""Regenerate the messages of the CRI, the kubelet, Koordinator's hooks and traces, or check that they are current.

    python tools/generate_cri.py [--check]

The generated files are checked in and never edited. `--check` writes nothing and exits with 1 if they differ from the
.proto files. Needs grpcio-tools and mypy-protobuf.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# The protobuf runtime that the code asks for: pyproject.toml's lower bound, as for the NRI
# messages (`generate_api.py` explains it), not the one of the machine that generates.
FLOOR = (6, 31, 1)


class Source(NamedTuple):
    """One .proto, and where its messages live.

    The path below `proto` is the file's name in protobuf's descriptor pool: that of upstream, so that no two files
    called api.proto collide. From it protoc derives a Python module, which is not the place of nri's.
    """

    proto: str
    package: str
    init: str

    @property
    def target(self) -> Path:
        """The folder of the generated files."""
        return ROOT / "src" / self.package.replace(".", "/")

    @property
    def protoc_module(self) -> str:
        """The module that protoc makes."""
        return self.proto.removesuffix(".proto").replace("-", "_").replace("/", ".") + "_pb2"


SOURCES = (
    Source(
        "k8s.io/cri-api/pkg/apis/runtime/v1/api.proto",
        "nri.cri.pb",
        '"""Messages of the CRI, generated from `proto/k8s.io` by `tools/generate_cri.py`. Do not edit them."""\n',
    ),
    Source(
        "k8s.io/kubelet/pkg/apis/dra/v1/api.proto",
        "nri.plugins.dra_cpu.pb.dra",
        '"""Messages of dynamic resource allocation, generated from `proto/k8s.io` by `tools/generate_cri.py`."""\n',
    ),
    Source(
        "k8s.io/kubelet/pkg/apis/pluginregistration/v1/api.proto",
        "nri.plugins.dra_cpu.pb.registration",
        '"""Messages of plugin registration, generated from `proto/k8s.io` by `tools/generate_cri.py`."""\n',
    ),
    Source(
        "koordinator.sh/apis/runtime/v1alpha1/api.proto",
        "nri.proxy.hook_servers.pb",
        '"""Generated messages; see `proto/koordinator.sh`. Never edited: `tools/generate_cri.py`."""\n',
    ),
    Source(
        "nri/trace/v1/api.proto",
        "nri.trace.pb",
        '"""Generated messages; see `proto/nri/trace`. Never edited: `tools/generate_cri.py`."""\n',
    ),
)


def generate(source: Source) -> dict[str, str]:
    """Run protoc and return file name -> text."""
    mypy_plugin = Path(sysconfig.get_path("scripts")) / "protoc-gen-mypy"
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}"),
                *(f"--python_out={out}", f"--plugin=protoc-gen-mypy={mypy_plugin}"),
                *(f"--mypy_out=quiet:{out}", source.proto),
            ],
            check=True,
        )
        base = Path(out, source.protoc_module.replace(".", "/"))
        code = base.with_suffix(".py").read_text()
        stubs = base.with_suffix(".pyi").read_text()
    code = code.replace(source.protoc_module, f"{source.package}.api_pb2")
    code = re.sub(r"(Domain\.PUBLIC,)\s+\d+,\s+\d+,\s+\d+,", rf"\1 {FLOOR[0]}, {FLOOR[1]}, {FLOOR[2]},", code)
    code = re.sub(r"(# Protobuf Python Version: ).*", rf"\g<1>{'.'.join(map(str, FLOOR))}", code)
    return {"__init__.py": source.init, "api_pb2.py": code, "api_pb2.pyi": stubs}


def main() -> int:
    """Return the exit code: 0 written or current, 1 not current."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    check = parser.parse_args().check
    stale = [path for source in SOURCES for path in _written(source, check)]
    if stale and check:
        print(f"not current: {', '.join(stale)}; run tools/generate_cri.py", file=sys.stderr)
        return 1
    return 0


def _written(source: Source, check: bool) -> list[str]:
    """The files that were not current, and are now unless they are only checked."""
    stale = []
    for name, text in generate(source).items():
        path = source.target / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return stale


if __name__ == "__main__":
    sys.exit(main())
