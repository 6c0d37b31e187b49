"""kubeconform, and Kubernetes' own schemas in the strict form that it wants: built once, kept in the cache.

kubeconform has no schemas inside and would fetch them from a server. Kubernetes' source has the OpenAPI document that
its API server publishes; this makes JSON schemas of it that refuse unknown fields, as `kubectl --validate=strict` does.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.needs import need_tool

KUBERNETES = "v1.34.4"
#: The module's checksum, as go.sum would have it.
KUBERNETES_SUM = "h1:Yy6R4QB8C9kJPp25GFqEvX5XQwY5qzKeqD0Xx6oAcmk="
KUBECONFORM = "v0.8.0"
SWAGGER = "api/openapi-spec/swagger.json"


def cache() -> Path:
    """Where tools are kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("NRI_CACHE") or f"{home}/nri-dev") / "kubernetes"


@contextmanager
def locked() -> Iterator[Path]:
    """The cache folder, for one process at a time."""
    cache().mkdir(parents=True, exist_ok=True)
    with Path(cache(), "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield cache()


def kubeconform() -> Path:
    """The program, built from its released module."""
    go = need_tool("go")
    with locked() as folder:
        program = folder / f"kubeconform-{KUBECONFORM}" / "kubeconform"
        if not program.exists():
            target = f"github.com/yannh/kubeconform/cmd/kubeconform@{KUBECONFORM}"
            subprocess.run(
                [go, "install", target], env=os.environ | {"GOBIN": str(program.parent)}, cwd=folder, check=True
            )
    return program


def schemas() -> Path:
    """A folder with one strict schema per kind, named as kubeconform looks for them: ``daemonset-apps-v1.json``."""
    go = need_tool("go")
    with locked() as folder:
        schema_folder = folder / f"schemas-{KUBERNETES}"
        if not schema_folder.exists():
            words = [go, "mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES}"]
            process = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=True)
            module = json.loads(process.stdout)
            assert module["Sum"] == KUBERNETES_SUM, (
                f"k8s.io/kubernetes {KUBERNETES} is not what it was: {module['Sum']}"
            )
            new = folder / "schemas.new"
            new.mkdir(exist_ok=True)
            write_schemas(json.loads(Path(module["Dir"], SWAGGER).read_text()), new)
            new.rename(schema_folder)
    return schema_folder


def write_schemas(swagger: dict[str, Any], folder: Path) -> None:
    """One file per kind that has a group and version of its own."""
    definitions = {name: strict(name, definition) for name, definition in swagger["definitions"].items()}
    for name, definition in swagger["definitions"].items():
        kinds = definition.get("x-kubernetes-group-version-kind", [])
        if len(kinds) != 1:  # those with many are shared helpers such as DeleteOptions
            continue
        group, version, kind = (kinds[0][key] for key in ("group", "version", "kind"))
        used = closure(name, definitions)
        schema = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {one: definitions[one] for one in used},
            "$ref": f"#/definitions/{name}",
        }
        parts = [kind.lower(), group.partition(".")[0], version]
        (folder / f"{'-'.join(part for part in parts if part)}.json").write_text(json.dumps(schema))


def strict(name: str, definition: Any) -> Any:
    """A definition as JSON schema: no unknown fields, loose types spelled out, optional fields may be null."""
    if name.endswith((".Quantity", ".IntOrString")):
        return {"type": ["string", "number"]}
    if isinstance(definition, list):
        return [strict("", item) for item in definition]
    if not isinstance(definition, dict):
        return definition
    if definition.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    schema = {
        key: strict("", value) for key, value in definition.items() if key != "format" and not key.startswith("x-")
    }
    if "properties" in definition and isinstance(definition["properties"], dict):
        schema.setdefault("additionalProperties", False)
        for key, value in schema["properties"].items():
            if key not in definition.get("required", ()) and isinstance(value.get("type"), str):
                value["type"] = [value["type"], "null"]
    return schema


def closure(name: str, definitions: dict[str, Any]) -> set[str]:
    """The definition and everything that it refers to, directly or not."""
    names, pending = set(), [name]
    while pending:
        one = pending.pop()
        if one not in names:
            names.add(one)
            pending += references(definitions[one])
    return names


def references(value: Any) -> Iterator[str]:
    """Names of definitions that a schema refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)
