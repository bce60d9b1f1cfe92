"""Progress and messages on stderr: live bars on a terminal, and a plain line every `INTERVAL` seconds elsewhere.

Both displays show the progress, the rate, the remaining time and the values that the caller reports. Data go to stdout.
"""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any, TextIO

from ptmbench.bench.errors import printable

INTERVAL = 10.0
"""Seconds between two plain lines."""


class Bar:
    """The progress of one piece of work. ``total`` is None if its size is not known."""

    def __init__(self, title: str, total: float | None, unit: str) -> None:
        self.title, self.total, self.unit = printable(title), total, unit
        self.done, self.before, self.values, self.start = 0.0, 0.0, "", time.monotonic()

    def advance(self, amount: float = 1, **values: Any) -> None:
        """Adds ``amount`` to the finished work. The bar shows ``values``, such as loss=2.31, from now on."""
        self.done += amount
        if values:
            self.values = printable("  ".join(f"{name} {_short(value)}" for name, value in values.items()))
        self._on_advance()

    def skip(self, amount: float) -> None:
        """Adds ``amount`` that an earlier run has done: it counts as progress, but not for the rate."""
        self.before += amount
        self.advance(amount)

    def _on_advance(self) -> None:
        """Called after each advance."""

    def text(self) -> str:
        """The state as one line: title, progress, rate, remaining time, values."""
        seconds = time.monotonic() - self.start
        rate = (self.done - self.before) / seconds if seconds > 0 else 0.0
        far = f"{_short(self.done)}/{_short(self.total)}" if self.total else _short(self.done)
        parts = [f"{self.title}: {far} {self.unit}"]
        if self.total:
            parts.append(f"{100 * self.done / self.total:.0f} %")
        if rate:
            parts.append(f"{_short(rate)} {self.unit}/s")
        if self.total and rate and self.done < self.total:
            parts.append(f"{duration((self.total - self.done) / rate)} left")
        else:
            parts.append(f"after {duration(seconds)}")
        return ", ".join(parts) + (f"  {self.values}" if self.values else "")


class PlainBar(Bar):
    """Prints lines for logs and pipes: one every `INTERVAL` seconds, and one at the end."""

    def __init__(self, title: str, total: float | None, unit: str, stream: TextIO) -> None:
        super().__init__(title, total, unit)
        self.stream, self.last = stream, self.start

    def _on_advance(self) -> None:
        if time.monotonic() - self.last >= INTERVAL:
            self.line()

    def line(self) -> None:
        self.last = time.monotonic()
        print(self.text(), file=self.stream, flush=True)


class LiveBar(Bar):
    """A row of the live display that all open bars share."""

    def __init__(self, title: str, total: float | None, unit: str, live: Any) -> None:
        super().__init__(title, total, unit)
        self.live = live
        self.row = live.add_task(self.title, total=total, state="")

    def _on_advance(self) -> None:
        self.live.update(self.row, completed=self.done, state=self.text().partition(": ")[2])


_silent = False
"""Whether messages and bars are off. It holds for the whole process, because threads print messages of workers."""


@contextmanager
def silenced(yes: bool = True) -> Iterator[None]:
    """Turns messages and bars off within the ``with`` block, if ``yes``."""
    global _silent
    before, _silent = _silent, _silent or yes
    try:
        yield
    finally:
        _silent = before


@contextmanager
def stdout_aside() -> Iterator[None]:
    """Redirects stdout to stderr within the ``with`` block, or drops it while `silenced`."""
    with open(os.devnull, "w") if _silent else nullcontext(sys.stderr) as stream, redirect_stdout(stream):
        yield


_open: list[Any] = []
"""The live display, once per open bar. rich allows one display at a time; closing the last bar stops it."""


@contextmanager
def progress(title: str, total: float | None = None, unit: str = "steps", *, brief: bool = False) -> Iterator[Bar]:
    """Yields a `Bar` for the work in the ``with`` block; may be nested.

    ``brief`` is for small parts of larger work: their bar is removed, and a plain log has no final line for them.
    """
    if _silent:
        yield Bar(title, total, unit)
        return
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        bar = PlainBar(title, total, unit, sys.stderr)
        yield bar
        if not brief:
            bar.line()
        return
    live = _open[-1] if _open else _display()
    _open.append(live)
    bar = LiveBar(title, total, unit, live)
    try:
        yield bar
        if not brief:
            live.console.print(bar.text(), markup=False, highlight=False)
    finally:
        live.remove_task(bar.row)
        _open.pop()
        if not _open:
            live.stop()


def say(text: str) -> None:
    """Prints a message on stderr, above the bars if there are any."""
    if _silent:
        return
    if _open:
        _open[-1].console.print(printable(text), markup=False, highlight=False)
    else:
        print(printable(text), file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Formats a duration: "8 s", "3 min 20 s", "2 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _display() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[state]}", markup=False),
    )
    live = Progress(*columns, console=Console(stderr=True), transient=True)
    live.start()
    return live


def _short(value: Any) -> str:
    """Shortens a number: 1234 stays, 20000000 becomes 20M, 0.123456 becomes 0.1235."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        try:
            value = float(value)
        except (TypeError, ValueError):
            return str(value)
    if not math.isfinite(value):
        return str(value)
    for limit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return str(int(value)) if value == int(value) else f"{value:.4g}"
