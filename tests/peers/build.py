"""Build the tests' own peers on demand: Go and Rust programs over released modules, and C for the benchmarks' floor.

One job: `peer("refruntime")` gives the path of a ready program. Programs are built a module at a time into the cache
folder under a key made of the module's sources and the compiler's version, so a second call is a look-up, and parallel
test sessions wait for one build instead of doing two. By hand: ``python -m tests.peers.build [NAME...]``.
Next: drivers.py starts the programs and talks to them.
"""

import fcntl
import functools
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.needs import need_tool

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCE_SUFFIXES = frozenset({".go", ".mod", ".sum", ".rs", ".toml", ".lock", ".proto", ".c"})


class BuildError(RuntimeError):
    """A peer does not build; the text has the compiler's last words."""


@dataclass(frozen=True, slots=True)
class Module:
    """A folder that one command builds into several programs."""

    tool: str  # the compiler, also what a test needs
    folder: Path  # where the command runs
    command: tuple[str, ...]  # {out} is the folder for the programs
    programs: tuple[str, ...]
    sources: tuple[Path, ...]  # folders whose files are in the key
    version: tuple[str, ...]  # prints the compiler's version
    environment: tuple[tuple[str, str], ...] = ()
    products: str = "{out}/{name}"  # where the command leaves a program
    suffix: str = ""  # of the name that `peer` takes: one program name, several releases


def _go(
    folder: str, *, tags: str = "nri_no_wasm", suffix: str = "", modfile: str = "", programs: tuple[str, ...]
) -> Module:
    where = ROOT / folder
    extra = (f"-modfile={modfile}",) if modfile else ()
    sources = [where, HERE / "gocommon"]
    if modfile:
        sources.append((where / modfile).parent.resolve())
    return Module(
        tool="go",
        folder=where,
        command=("go", "build", "-trimpath", "-buildvcs=false", *extra, "-tags", tags, "-o", "{out}/",
                 *(f"./cmd/{name}" for name in programs)),
        programs=programs,
        sources=tuple(sources),
        version=("go", "env", "GOVERSION", "GOARCH"),
        suffix=suffix,
    )  # fmt: skip


def _package(folder: str, program: str, package: str) -> Module:
    """One program of a module that others are in as well, or that takes minutes: only what is asked for is built."""
    where = (HERE / folder).resolve()
    return Module(
        tool="go",
        folder=where,
        command=("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", "{out}/", package),
        programs=(program,),
        sources=(where,),
        version=("go", "env", "GOVERSION", "GOARCH"),
        environment=(("CGO_ENABLED", "0"),),
    )


MODULES = (
    _go("tests/peers/go", programs=("refruntime", "refplugin", "fieldplugin", "oracle", "ttrpcpeer")),
    _go(
        "tests/peers/go",
        modfile="../go061/go.mod",
        tags="nri061",
        suffix="061",
        programs=("refruntime", "refplugin"),
    ),
    _go("bench/peers/go", programs=("benchrt", "benchpl")),
    _go("tests/peers/registry", programs=("registry",)),
    _go("tests/peers/streams", programs=("streamclient",)),
    _go("tests/peers/hookserver", programs=("hookserver",)),
    _package("koordproxy", "koord-runtime-proxy", "github.com/koordinator-sh/koordinator/cmd/koord-runtime-proxy"),
    _package("charts", "chartrender", "./cmd/chartrender"),
    _package("charts", "helm", "helm.sh/helm/v4/cmd/helm"),
    _package("../kubernetes/kubernetes134", "podresources", "./cmd/podresources"),
    Module(
        tool="go",
        folder=HERE / "v010",
        command=("go", "build", "-trimpath", "-buildvcs=false", "-o", "{out}/v010plugin", "."),
        programs=("v010plugin",),
        sources=(HERE / "v010",),
        version=("go", "env", "GOVERSION", "GOARCH"),
    ),
    Module(
        tool="go",
        folder=HERE / "wasm",
        command=("go", "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-o", "{out}/wasmplugin", "."),
        programs=("wasmplugin",),
        sources=(HERE / "wasm",),
        version=("go", "env", "GOVERSION"),
        environment=(("GOOS", "wasip1"), ("GOARCH", "wasm")),
    ),
    Module(
        tool="cargo",
        folder=HERE / "rust",
        command=("cargo", "build", "--release", "--locked", "--target-dir", "{cache}/cargo"),
        programs=("rustpeer",),
        sources=(HERE / "rust", HERE / "proto"),
        version=("cargo", "--version"),
        products="{cache}/cargo/release/{name}",
    ),
    Module(
        tool="cc",
        folder=ROOT / "bench/peers/floor",
        command=("cc", "-O2", "-Wall", "-Wextra", "-o", "{out}/pp", "pp.c"),
        programs=("pp",),
        sources=(ROOT / "bench/peers/floor",),
        version=("cc", "-dumpfullversion"),
    ),
)
PEERS: dict[str, tuple[Module, str]] = {
    name + module.suffix: (module, name) for module in MODULES for name in module.programs
}


def cache_dir() -> Path:
    """Where built peers are kept: NRI_CACHE, else nri-dev in the user's cache folder."""
    base = os.environ.get("NRI_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nri-dev"


@functools.cache
def peer(name: str) -> Path:
    """The program `name`, built now if it has to be; skips the test if its compiler is missing."""
    module, program = PEERS[name]
    need_tool(module.tool)
    return build(module) / program


def build(module: Module) -> Path:
    """The folder with the module's programs. Raises BuildError."""
    cache = cache_dir() / "peers"
    target = cache / f"{module.folder.name}{module.suffix}-{_key(module)}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with off_the_clock(), _locked(cache / f"{module.folder.name}{module.suffix}.lock"):
        if not target.is_dir():
            _build_into(module, cache, target)
    return target


def _build_into(module: Module, cache: Path, target: Path) -> None:
    names = ", ".join(module.programs)
    _say(f"building {names} in {module.folder.relative_to(ROOT)} (once; {module.tool})")
    began = time.monotonic()
    out = Path(tempfile.mkdtemp(prefix="build-", dir=cache))
    try:
        command = ["nice", "-n", "10", *(part.format(out=out, cache=cache) for part in module.command)]
        done = subprocess.run(
            command,
            cwd=module.folder,
            env={**os.environ, **dict(module.environment)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=1800,
        )
        if done.returncode != 0:
            tail = "\n".join(done.stdout.strip().splitlines()[-20:])
            raise BuildError(f"{names} does not build ({module.tool} ended with {done.returncode}):\n{tail}")
        for name in module.programs:
            product = Path(module.products.format(out=out, cache=cache, name=name))
            if product.parent != out:
                shutil.copy2(product, out / name)
        out.chmod(0o755)
        out.rename(target)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    _say(f"built {names} in {time.monotonic() - began:.0f} s")


def _key(module: Module) -> str:
    """What the programs depend on, as a short hash: sources, command, compiler."""
    digest = hashlib.sha256(repr((module.command, module.environment)).encode())
    version = subprocess.run(module.version, capture_output=True, text=True, check=True, timeout=60, cwd=module.folder)
    digest.update(version.stdout.encode())
    for folder in module.sources:
        for path in sorted(folder.rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.is_file():
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Hold the alarm clock that limits a test's time: a build on a busy machine is not the test's own time."""
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another build ({path.stem})")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"peers: {text}", file=sys.stderr, flush=True)


def main(names: list[str]) -> int:
    """Build the named peers, or all of them, and print their paths."""
    for name in names or PEERS:
        if name not in PEERS:
            _say(f"no peer {name!r}; there are {', '.join(PEERS)}")
            return 2
        module, program = PEERS[name]
        if shutil.which(module.tool) is None:
            _say(f"{name} needs {module.tool}: install it or put it on PATH")
            return 1
        try:
            print(build(module) / program, flush=True)
        except BuildError as error:
            _say(str(error))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
