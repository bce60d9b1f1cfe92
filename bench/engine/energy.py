"""Measures energy in joules with RAPL for processors and NVML for NVIDIA accelerators.

RAPL (Linux, /sys/class/powercap) counts microjoules per processor package. It wraps around to 0 after some hundred
kilojoules, which takes less than half an hour under load. NVML counts millijoules since its driver was loaded. Both
count the whole device, including other work that runs at the same time.
"""

import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

POWERCAP = Path("/sys/class/powercap")
_EVERY = 60.0
"""Seconds between two readings of RAPL: less than any wrap-around (the smallest range, 65 kJ, lasts 160 s at 400 W)."""


class Package:
    """The RAPL counter of one processor package, in ``folder``. ``joules()`` never decreases."""

    def __init__(self, folder: Path):
        self._counter = folder / "energy_uj"
        self._range = int((folder / "max_energy_range_uj").read_text())
        self._last = self._read()
        self._total = 0
        self._lock = threading.Lock()

    def joules(self) -> float:
        """Joules since this object was created. Correct if it is called at least once per wrap-around."""
        with self._lock:
            now = self._read()
            self._total += (now - self._last) % (self._range + 1)
            self._last = now
            return self._total / 1e6

    def _read(self) -> int:
        return int(self._counter.read_text())


class Counter:
    """Counts energy from its creation until `stop`."""

    def __init__(self) -> None:
        self._read, self._source, self._reason = _meters()
        self._began = self._now()
        self._stopped = threading.Event()
        if self._read:
            threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> dict[str, Any]:
        """Returns {"joules", "source"}, or {"joules": None, "reason"} without a meter."""
        self._stopped.set()
        now = self._now()
        if not self._read:
            return {"joules": None, "reason": self._reason}
        joules = sum(there - began for there, began in zip(now, self._began, strict=True))
        return {"joules": round(joules, 3), "source": self._source}

    def _watch(self) -> None:
        while not self._stopped.wait(_EVERY):
            self._now()

    def _now(self) -> list[float]:
        """Reads all meters. If one fails (its driver was reloaded), none is read any more, so that the measured work
        can go on."""
        try:
            return [read() for read in self._read]
        except Exception as error:
            self._read, self._reason = [], f"{self._source} counts no more ({error})."
            return []


def packages(folder: Path = POWERCAP) -> tuple[list[Package], str]:
    """Returns RAPL's processor packages below ``folder``, and the reason if there are none ("" otherwise).

    Only packages are added up. Cores and memory are parts of them, and the platform's counter includes them again.
    """
    found = sorted(path for path in folder.glob("intel-rapl:*") if _is_package(path))
    if not found:
        return [], f"{folder} holds no RAPL package"
    try:
        return [Package(path) for path in found], ""
    except PermissionError:
        return [], f"{found[0] / 'energy_uj'} may be read by root only"
    except (OSError, ValueError) as error:
        return [], f"{found[0]} cannot be read ({error})"


def describe() -> tuple[str, bool]:
    """Returns the names of the meters, or the reason why there are none, and whether there are any."""
    read, source, reason = _meters()
    return (source, True) if read else (reason, False)


@cache
def _meters() -> tuple[list[Callable[[], float]], str, str]:
    """Returns functions that read joules, the names of their meters, and the reasons for missing meters."""
    processors, no_processor = packages()
    boards, no_board = _accelerators()
    sources = [f"RAPL, {len(processors)} packages"] * bool(processors) + [f"NVML, {len(boards)} GPUs"] * bool(boards)
    reads = [package.joules for package in processors] + boards
    return reads, " + ".join(sources), f"{no_processor}; {no_board}."


def _accelerators() -> tuple[list[Callable[[], float]], str]:
    """Returns a function per NVIDIA accelerator that reads its joules, and the reason if there are none."""
    try:
        import pynvml
    except ImportError:
        return [], "pynvml (pip install nvidia-ml-py) is not installed"
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        for handle in handles:
            pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except pynvml.NVMLError as error:
        return [], f"NVML counts nothing ({error})"
    return [lambda h=handle: pynvml.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3 for handle in handles], (
        "" if handles else "NVML finds no accelerator"
    )


def _is_package(folder: Path) -> bool:
    try:
        return (folder / "name").read_text().strip().startswith("package")
    except OSError:
        return False
