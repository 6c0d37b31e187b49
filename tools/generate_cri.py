"""Regenerate `src/nri/cri/pb` from the CRI's .proto, or check that it is current.

    python tools/generate_cri.py [--check]

Rules: the generated files are checked in and never edited; `--check` writes nothing
and exits 1 when they differ from what the .proto gives. Needs grpcio-tools and
mypy-protobuf. Next: `nri.cri`, which is the only layer that uses the messages.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The path below `proto` is the file's name in protobuf's descriptor pool. It keeps the
# upstream form, so that it never collides with another file called api.proto.
PROTO = "k8s.io/cri-api/pkg/apis/runtime/v1/api.proto"
TARGET = ROOT / "src/nri/cri/pb"
# protoc derives a Python module from the .proto's path; ours lives elsewhere.
PROTOC_MODULE = "k8s.io.cri_api.pkg.apis.runtime.v1.api_pb2"
OUR_MODULE = "nri.cri.pb.api_pb2"
# The protobuf runtime that the code asks for: pyproject.toml's lower bound, as for the NRI
# messages (`generate_api.py` says why that is sound), not the one of the machine that generates.
FLOOR = (6, 31, 1)
INIT = '"""Generated CRI messages; see `proto/k8s.io`. Never edited: `tools/generate_cri.py`."""\n'


def generate() -> dict[str, str]:
    """Run protoc and return file name -> text."""
    mypy_plugin = Path(sysconfig.get_path("scripts")) / "protoc-gen-mypy"
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}"),
                *(f"--python_out={out}", f"--plugin=protoc-gen-mypy={mypy_plugin}"),
                *(f"--mypy_out=quiet:{out}", PROTO),
            ],
            check=True,
        )
        base = Path(out, PROTOC_MODULE.replace(".", "/"))
        source = base.with_suffix(".py").read_text()
        stubs = base.with_suffix(".pyi").read_text()
    source = source.replace(PROTOC_MODULE, OUR_MODULE)
    source = re.sub(r"(Domain\.PUBLIC,)\s+\d+,\s+\d+,\s+\d+,", rf"\1 {FLOOR[0]}, {FLOOR[1]}, {FLOOR[2]},", source)
    source = re.sub(r"(# Protobuf Python Version: ).*", rf"\g<1>{'.'.join(map(str, FLOOR))}", source)
    return {"__init__.py": INIT, "api_pb2.py": source, "api_pb2.pyi": stubs}


def main() -> int:
    """Return the exit code: 0 written or current, 1 not current."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    check = parser.parse_args().check
    stale = []
    for name, text in generate().items():
        path = TARGET / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    if stale and check:
        print(
            f"{TARGET.relative_to(ROOT)}: not current: {', '.join(stale)}; run tools/generate_cri.py", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
