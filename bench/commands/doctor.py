"""Checks this machine and the installation for `ptmbench doctor`. The finding of each problem has advice."""

import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ptmbench.bench import environment
from ptmbench.bench.engine import energy

FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "asimd", "bf16")
"""Processor features that determine the speed of float32 and of lower precisions."""

ENOUGH_MEMORY, ENOUGH_DISK = 4 << 30, 2 << 30  # bytes; the demo needs less of both


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a check. ``state`` is "ok", "warning" (a run works, with limits) or "missing" (it cannot work)."""

    name: str
    value: str
    state: str = "ok"
    advice: str = ""


def examine() -> Iterator[Finding]:
    """Yields all findings, those of quick checks first. Imports TensorFlow."""
    yield python()
    yield from packages()
    yield Finding(name="processor", value=f"{environment.processor()}, {environment.cores()} cores usable")
    yield Finding(name="features", value=features() or "none of note")
    yield memory()
    for name, folder in (("cache", environment.cache_folder()), ("temporary", Path(tempfile.gettempdir()))):
        yield writable(name, folder)
    yield blas()
    yield from tensorflow()
    yield counted_energy()
    yield Finding(
        name="commit", value=environment.commit(), state="ok" if environment.commit() != "unknown" else "warning"
    )


def python() -> Finding:
    old = sys.version_info < (3, 11)
    return Finding(
        name="python",
        value=f"{platform.python_version()} ({sys.executable})",
        state="missing" if old else "ok",
        advice="Python 3.11 or newer is needed." if old else "",
    )


def packages() -> Iterator[Finding]:
    """Compares the installed version of each package in the project's metadata with constraints.txt."""
    try:
        required = metadata.requires("ptmbench") or []
    except metadata.PackageNotFoundError:
        yield Finding(
            name="ptmbench",
            value="not installed, running from the clone",
            state="warning",
            advice="`pip install -c constraints.txt -e .` in the clone installs it with all that it needs.",
        )
        required = []
    names = [re.split(r"[\s<>=!~;\[(]", line, maxsplit=1)[0] for line in required if "extra ==" not in line]
    found = {name: environment.versions().get(name) or _version(name) for name in (names or environment.PACKAGES[1:])}
    pins = _pins()
    for name, version in found.items():
        pin = pins.get(_plain(name))
        if version == "missing":
            advice = "`pip install -c constraints.txt -e .` in the clone installs it."
            yield Finding(name=name, value="not installed", state="missing", advice=advice)
        elif pin and pin != version:
            advice = f"constraints.txt pins {pin}: scores may differ in the last digits."
            yield Finding(name=name, value=version, state="warning", advice=advice)
        else:
            yield Finding(name=name, value=version)


def memory() -> Finding:
    import psutil

    found = psutil.virtual_memory()
    small = found.total < ENOUGH_MEMORY
    return Finding(
        name="memory",
        value=f"{found.total / 2**30:.1f} GiB, {found.available / 2**30:.1f} GiB free",
        state="warning" if small else "ok",
        advice="Less than 4 GiB: keep to --size tiny and --jobs 1." if small else "",
    )


def writable(name: str, folder: Path) -> Finding:
    """Checks that files can be written to ``folder``, and its free space. Creates the folder if needed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        advice = "Point PTMBENCH_CACHE (or TMPDIR) at a folder that you may write."
        return Finding(name=name, value=f"{folder}: {error.strerror or error}", state="missing", advice=advice)
    little = free < ENOUGH_DISK
    return Finding(
        name=name,
        value=f"{folder}, {free / 2**30:.1f} GiB free",
        state="warning" if little else "ok",
        advice="Less than 2 GiB: checkpoints may not fit." if little else "",
    )


def blas() -> Finding:
    import numpy

    built = numpy.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return Finding(name="BLAS", value=f"numpy with {built.get('name', 'unknown')} {built.get('version', '')}".rstrip())


def tensorflow() -> Iterator[Finding]:
    """Yields findings about the import time, oneDNN and accelerators, or a single one if the import fails."""
    environment.prepare()
    start = time.perf_counter()
    try:
        import tensorflow as tf
    except Exception as error:  # a broken shared library can raise almost any exception
        advice = "`pip install -c constraints.txt -e .` in a new virtual environment repairs most installations."
        yield Finding(name="import", value=f"TensorFlow fails: {error}", state="missing", advice=advice)
        return
    yield Finding(name="import", value=f"TensorFlow in {time.perf_counter() - start:.1f} s")
    yield Finding(
        name="oneDNN",
        value="off by TF_ENABLE_ONEDNN_OPTS=0" if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0" else "on",
    )
    found = [device for device in tf.config.list_physical_devices() if device.device_type != "CPU"]
    yield Finding(
        name="accelerators", value=environment.device() if found else "none: everything runs on the processor"
    )


def counted_energy() -> Finding:
    """Checks whether the energy of a cell, in joules, can be measured on this machine."""
    what, readable = energy.describe()
    if readable:
        return Finding(name="energy", value=f"read from {what}")
    advice = "Records have no joules. Where RAPL is for root only, `chmod a+r` its energy_uj files."
    return Finding(name="energy", value=f"not readable: {what}", state="warning", advice=advice)


def features() -> str:
    """The `FLAGS` that the processor has, separated by spaces; "" if they are unknown."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    line = next((line for line in text.splitlines() if line.lower().startswith(("flags", "features"))), "")
    return " ".join(flag for flag in FLAGS if flag in line.split())


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def _pins() -> dict[str, str]:
    try:
        lines = (environment.ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {_plain(name): version for name, _, version in (line.partition("==") for line in lines) if version}


def _plain(name: str) -> str:
    """Normalises the name of a package: lower case, with "-" for "_" and "."."""
    return re.sub(r"[-_.]+", "-", name).lower()
