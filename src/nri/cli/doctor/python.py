"""This installation: protobuf's back end, and versions that plugins depend on.

Next: `nri.cli.doctor.findings`, the vocabulary.
"""

from __future__ import annotations

from nri.cli.doctor.findings import Finding
from nri.cli.support.versions import versions


def check(findings: list[Finding]) -> None:
    """Judge what runs the plugins on this machine."""
    found = versions()
    what = f"nri {found['nri']}, NRI API {found['nri_api']}, Python {found['python']}, protobuf {found['protobuf']}"
    findings.append(Finding("ok", what, "python"))
    if found["protobuf_backend"] == "python":
        step = "install a protobuf wheel with the upb back end, and unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
        findings.append(
            Finding("problem", "protobuf runs on its pure-Python back end, about 100 times slower", "protobuf", step)
        )
    else:
        findings.append(Finding("ok", f"protobuf runs on its {found['protobuf_backend']} back end", "protobuf"))
