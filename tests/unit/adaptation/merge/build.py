"""Requests and replies for merge tests, written as protobuf JSON, and the fold over them."""

from typing import Any

from google.protobuf import json_format

from nri.adaptation.merge import CreateMerge, StopMerge, UpdateMerge
from nri.api import messages as m
from nri.errors import NriError
from nri.rules import Rules

Json = dict[str, Any]
REPLIES: dict[Any, Any] = {
    CreateMerge: m.CreateContainerResponse,
    UpdateMerge: m.UpdateContainerResponse,
    StopMerge: m.StopContainerResponse,
}


def parse(data: Json, message: Any) -> Any:
    return json_format.ParseDict(data, message)


def as_json(message: Any) -> Any:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def adjusts(**adjust: Any) -> m.CreateContainerResponse:
    return parse({"adjust": adjust}, m.CreateContainerResponse())


def resources(**limits: Any) -> m.CreateContainerResponse:
    return adjusts(linux={"resources": limits})


def update(container: str, ignore: bool = False, **limits: Any) -> Json:
    return {"container_id": container, "ignore_failure": ignore, "linux": {"resources": limits}}


class Containers(set[str]):
    """The containers that a runtime has; those in `creating` are only about to be there."""

    creating: tuple[str, ...] = ()

    def is_creating(self, container_id: str) -> bool:
        return container_id in self.creating


def create_state(container: Json | None = None, rules: Rules = Rules.DEFAULT, names: Any = None) -> CreateMerge:
    request = parse({"pod": {"id": "pod"}, "container": {"id": "ctr", **(container or {})}}, m.CreateContainerRequest())
    return CreateMerge(request, rules, names)


def update_state(expected: Json | None = None, rules: Rules = Rules.DEFAULT, names: Any = None) -> UpdateMerge:
    request = parse({"container": {"id": "ctr"}, "linux_resources": expected or {}}, m.UpdateContainerRequest())
    return UpdateMerge(request, rules, names)


def stop_state(rules: Rules = Rules.DEFAULT, names: Any = None) -> StopMerge:
    return StopMerge(parse({"container": {"id": "ctr"}}, m.StopContainerRequest()), rules, names)


def fold(state: Any, *replies: Any) -> str:
    """Let plugins 10-a, 20-b, ... answer; the text of the error that ended it, or ""."""
    for place, reply in enumerate(replies):
        message = parse(reply, REPLIES[type(state)]()) if isinstance(reply, dict) else reply
        try:
            state.apply(f"{place + 1}0-{'abcdef'[place]}", message)
        except NriError as error:
            return str(error)
    return ""
