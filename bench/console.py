"""Progress for people, on stderr: live bars on a terminal, a plain line now and then anywhere else.

Data go to stdout. Both displays show the progress, the rate, the remaining time and the values that the caller reports.
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
    """One piece of work under way. ``total`` None means that its end is not known."""

    def __init__(self, title: str, total: float | None, unit: str) -> None:
        self.title, self.total, self.unit = printable(title), total, unit
        self.done, self.before, self.values, self.start = 0.0, 0.0, "", time.monotonic()

    def advance(self, amount: float = 1, **values: Any) -> None:
        """``amount`` more of ``unit`` is done; ``values`` (loss=2.31) are shown next to the bar from now on."""
        self.done += amount
        if values:
            self.values = printable("  ".join(f"{name} {_short(value)}" for name, value in values.items()))
        self._shown()

    def skip(self, amount: float) -> None:
        """``amount`` was done by an earlier run: it counts for how far, not for how fast."""
        self.before += amount
        self.advance(amount)

    def _shown(self) -> None:
        """Called after each advance."""

    def text(self) -> str:
        """The state as one line: title, how far, rate, time left, values."""
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
    """Lines for logs and pipes: one every `INTERVAL` seconds, one at the end."""

    def __init__(self, title: str, total: float | None, unit: str, stream: TextIO) -> None:
        super().__init__(title, total, unit)
        self.stream, self.last = stream, self.start

    def _shown(self) -> None:
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

    def _shown(self) -> None:
        self.live.update(self.row, completed=self.done, state=self.text().partition(": ")[2])


_silent = False
"""Whether nothing is said or shown: a matter of the process, since threads speak for workers."""


@contextmanager
def silenced(yes: bool = True) -> Iterator[None]:
    """No messages and no bars inside, where ``yes``."""
    global _silent
    before, _silent = _silent, _silent or yes
    try:
        yield
    finally:
        _silent = before


@contextmanager
def stdout_aside() -> Iterator[None]:
    """What is printed on stdout inside goes to stderr, or nowhere while `silenced`."""
    with open(os.devnull, "w") if _silent else nullcontext(sys.stderr) as stream, redirect_stdout(stream):
        yield


_open: list[Any] = []
"""The live display, once per open bar: the last to close stops it. rich allows one at a time."""


@contextmanager
def progress(title: str, total: float | None = None, unit: str = "steps", *, brief: bool = False) -> Iterator[Bar]:
    """A `Bar` for the work in the ``with`` block; may be nested.

    ``brief`` is for small parts of something larger: their bar vanishes, and a plain log gets no closing line for them.
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
    """One line for people on stderr, above the bars when there are any."""
    if _silent:
        return
    if _open:
        _open[-1].console.print(printable(text), markup=False, highlight=False)
    else:
        print(printable(text), file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """ "8 s", "3 min 20 s", "2 h 05 min"."""
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
    """Numbers as people read them: 1234 stays, 20000000 is 20M, 0.123456 is 0.1235."""
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
