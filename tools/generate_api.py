"""Generate the NRI messages from their .proto: `python tools/generate_api.py`, or compare with `--check`.

`proto/nri/pkg/api/v1alpha1/api.proto` becomes `src/nri/api/pb/` (modules and type stub), which is checked in.
Differences from the output of protoc:

- The pool path is `nri/pkg/api/v1alpha1/api.proto`, because a second file called `api.proto` (CRI has one) in the
  default descriptor pool fails the import.
- Stubs come from mypy-protobuf: protoc's own `--pyi_out` writes invalid Python for the enum value called `None`.
- The version that the generated code demands of the protobuf runtime is lowered to `FLOOR`. The code that protoc 31.1
  (protobuf 6.31.1) writes for this file is byte for byte the same but for that number, so it is the honest bound; it is
  the one in pyproject.toml as well. Without this every user would need the release of the generating machine.

Exit codes: 0 done or equal, 1 different or failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO_ROOT = ROOT / "proto"
PROTO = "nri/pkg/api/v1alpha1/api.proto"
TARGET = ROOT / "src" / "nri" / "api" / "pb"
MODULE = "nri.api.pb.api_pb2"
FLOOR = (6, 31, 1)
LITERAL = r"AddSerializedFile\((b'.*')\)"
DESCRIPTOR = """\"\"\"Generated: the serialized descriptor of the NRI API, shared by api_pb2 and nri.api.loader.\"\"\"

SERIALIZED = {literal}
"""
INIT = (
    '"""Generated messages; import them from `nri.api.messages`. Regenerate with `python tools/generate_api.py`."""\n'
)


class GenerateError(Exception):
    """protoc failed, or its output does not have the expected shape."""


def run_protoc(out: Path) -> None:
    """Run grpcio-tools' protoc with the mypy-protobuf plugin of the same environment."""
    scripts = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": scripts + os.pathsep + os.environ.get("PATH", "")}
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO_ROOT}", f"--python_out={out}"]
    command += [f"--mypy_out=quiet:{out}", PROTO]
    process = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if process.returncode:
        raise GenerateError(f"protoc failed: {process.stderr.strip()} (are grpcio-tools and mypy-protobuf installed?)")


def replace_once(pattern: str, replacement: str, text: str) -> str:
    """`re.sub` that insists on exactly one match, so that a new protoc cannot slip by unnoticed."""
    new, count = re.subn(pattern, lambda _match: replacement, text)
    if count != 1:
        raise GenerateError(f"expected one match of {pattern!r} in the generated module, found {count}")
    return new


def split_module(text: str) -> tuple[str, str]:
    """Lower the version demand, put in our module name and move the serialized descriptor into its own module."""
    major, minor, patch = FLOOR
    text = replace_once(r"# Protobuf Python Version: .*", f"# Protobuf Python Version: {major}.{minor}.{patch}", text)
    demand = f"Domain.PUBLIC,\n    {major},\n    {minor},\n    {patch},"
    text = replace_once(r"Domain\.PUBLIC,\n    \d+,\n    \d+,\n    \d+,", demand, text)
    text = replace_once(r"'nri\.pkg\.api\.v1alpha1\.api_pb2'", f"'{MODULE}'", text)
    literal = re.search(LITERAL, text)
    text = replace_once(LITERAL, "AddSerializedFile(_SERIALIZED)", text)
    insertion = "# @@protoc_insertion_point(imports)\n"
    text = replace_once(
        re.escape(insertion), insertion + "from nri.api.pb.descriptor import SERIALIZED as _SERIALIZED\n", text
    )
    assert literal is not None, "replace_once found it"
    return text, DESCRIPTOR.format(literal=literal[1])


def generate() -> dict[str, str]:
    """The files of the generated package: name to text."""
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary)
        run_protoc(out)
        files = out / Path(PROTO).parent
        module, descriptor = split_module((files / "api_pb2.py").read_text())
        stub = (files / "api_pb2.pyi").read_text()
    return {"__init__.py": INIT, "api_pb2.py": module, "api_pb2.pyi": stub, "descriptor.py": descriptor}


def main(argv: list[str] | None = None) -> int:
    """Entry point of the command; see the module's text."""
    parser = argparse.ArgumentParser(description="Generate the NRI messages from their .proto.")
    parser.add_argument("--check", action="store_true", help="only compare with what is checked in")
    check: bool = parser.parse_args(argv).check
    try:
        files = generate()
    except GenerateError as error:
        print(f"generate_api: {error}", file=sys.stderr)
        return 1
    if not check:
        TARGET.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (TARGET / name).write_text(text)
        return 0
    stale = [
        name for name, text in files.items() if not (TARGET / name).is_file() or (TARGET / name).read_text() != text
    ]
    for name in stale:
        print(
            f"generate_api: {TARGET.relative_to(ROOT) / name} is stale: run python tools/generate_api.py",
            file=sys.stderr,
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
