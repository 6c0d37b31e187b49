"""The fast loader and its fallback return the same classes with every protobuf."""

import os
import pickle
import subprocess
import sys

import pytest

from nri.api import loader
from nri.api import messages as m

HIDE_UPB = "import sys; sys.modules['google._upb'] = None\n"
USE = """
from nri.api import messages as m
request = m.CreateContainerRequest(pod=m.PodSandbox(id="p", labels={"a": "b"}))
again = m.CreateContainerRequest.FromString(request.SerializeToString())
assert again == request and type(again.pod) is m.PodSandbox, again
assert m.Event.Name(4) == "CREATE_CONTAINER" and m.SecurityProfile.LOCALHOST == 2
import sys
print("nri.api.pb.api_pb2" in sys.modules)
"""


def run(code: str, **environment: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", code]  # protobuf warns about its slow back end
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def test_the_fast_loader_does_not_import_the_generated_module() -> None:
    assert run(USE) == "False", "the fast loader fell back: did protobuf's private module change?"


def test_without_upb_the_public_import_is_used() -> None:
    assert run(HIDE_UPB + USE) == "True"


@pytest.mark.parametrize("name", ["MessageMeta", "default_pool"])
def test_a_changed_upb_is_detected_and_the_public_import_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from google._upb import _message

    public = loader.load_public()
    monkeypatch.delattr(_message, name)
    with pytest.raises(AttributeError, match=name):
        loader.load_fast()
    assert loader.load()["PodSandbox"] is public["PodSandbox"]


def test_classes_that_do_not_work_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    from google._upb import _message

    class Dead:
        def __init__(self, *args: object, **fields: object) -> None:
            self.fields = fields

        def SerializeToString(self) -> bytes:
            return b""

        @classmethod
        def FromString(cls, data: bytes) -> object:
            return cls()

    monkeypatch.setattr(_message, "MessageMeta", lambda name, bases, namespace: Dead)
    with pytest.raises(ImportError, match="do not work"):
        loader.load_fast()


def test_an_error_of_the_fast_loader_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode() -> None:
        raise SystemError("protobuf changed")

    monkeypatch.setattr(loader, "load_fast", explode)
    assert loader.load()["PodSandbox"] is m.PodSandbox


def test_the_selected_back_end_is_respected() -> None:
    code = USE + "from google.protobuf.internal import api_implementation\nprint(api_implementation.Type())"
    assert run(code, PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python").split() == ["True", "python"]


def test_both_loaders_return_the_same_classes() -> None:
    fast, public = loader.load_fast(), loader.load_public()
    assert fast.keys() == public.keys()
    classes = {name for name, value in fast.items() if isinstance(value, type)}
    assert len(classes) == 86
    assert all(fast[name] is public[name] for name in classes)
    assert all(fast[name].items() == public[name].items() for name in fast.keys() - classes)


@pytest.mark.parametrize("first", ["nri.api.messages", "nri.api.pb.api_pb2"])
def test_both_modules_can_be_imported_in_either_order(first: str) -> None:
    code = (
        f"import {first}\nimport nri.api.messages as m, nri.api.pb.api_pb2 as pb\n"
        "assert m.PodSandbox is pb.PodSandbox and type(pb.CreateContainerRequest().pod) is m.PodSandbox\n"
        "from google.protobuf import message_factory\n"
        "assert message_factory.GetMessageClass(pb.Container.DESCRIPTOR) is m.Container"
    )
    run(code)


def test_a_message_survives_pickling() -> None:
    pod = m.PodSandbox(id="p", annotations={"k": "v"})
    assert pickle.loads(pickle.dumps(pod)) == pod
