"""Run the reference's recorded specs through our generator, case by case, and say what differs.

The files are those of `nri.testing.conformance`, which reads them; here are the cases whose op is `spec`: an OCI spec,
an adjustment, and what the reference made of both. Specs are compared in canonical form, and checks of propagation
are asked of a host on which everything is one private mount, as it was where the cases were recorded.
"""

from __future__ import annotations

import copy
import difflib
import json

from google.protobuf import json_format

from nri.api import messages as m
from nri.errors import NriError
from nri.oci import Generator, MountPoint, MountTable, canonical
from nri.testing.conformance import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nri.testing.conformance import Case

__all__ = ["run_spec_case"]

_HOST = MountTable([MountPoint("/")])


def run_spec_case(case: Case, host: MountTable = _HOST) -> Failure | None:
    """Run one spec case in reference mode; None if it came out as recorded."""
    try:
        adjustment = json_format.ParseDict(case.get("adjust") or {}, m.ContainerAdjustment())
    except (json_format.ParseError, UnicodeEncodeError) as problem:
        return _failure(case, f"the case cannot be read: {str(problem).splitlines()[0]}")
    if not isinstance(case.get("spec"), dict):
        return _failure(case, "the case cannot be read: it has no 'spec'")
    given = copy.deepcopy(case["spec"])
    try:
        got = _outcome(spec=Generator(case["spec"], compat="reference", mounts=host).adjust(adjustment))
    except NriError as error:
        got = {"error": str(error)}
    if case["spec"] != given:
        return _failure(case, "the generator changed the spec that it was given")
    wanted = _outcome(**case["expect"])
    return None if got == wanted else _failure(case, _diff(wanted, got))


def _outcome(spec: Any = None, error: Any = None, **_: Any) -> dict[str, Any]:
    return {"error": error} if error is not None else {"spec": canonical(spec) if isinstance(spec, dict) else spec}


def _failure(case: Case, diff: str) -> Failure:
    return Failure(str(case["id"]), "spec", diff)


def _diff(wanted: Any, got: Any) -> str:
    recorded, ours = (json.dumps(side, indent=1, sort_keys=True).split("\n") for side in (wanted, got))
    return "\n".join(difflib.unified_diff(recorded, ours, "spec: recorded", "spec: ours", lineterm=""))
