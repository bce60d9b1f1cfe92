"""Options of measurements that have a peer, and the command and interpreter of the peer's process."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ptmbench.bench.commands.options import ABOVE_ZERO, COUNT, THREADS
from ptmbench.bench.errors import UsageError

_PEERS = Path(__file__).parent / "peers"


def peer_option(*known: str) -> Callable[[Callable], Callable]:
    """Returns a decorator that adds ``--peer``, with the choices ``known``, and ``--peer-python``."""
    asked = click.option("--peer", type=click.Choice(known), help="Peer to measure in addition.")
    return lambda command: asked(interpreter(command))


def interpreter(command: Callable) -> Callable:
    """Adds ``--peer-python``."""
    told = "Python interpreter with the peer's packages (default: this one)."
    return click.option("--peer-python", default=sys.executable, metavar="PYTHON", help=told)(command)


def turns(command: Callable) -> Callable:
    """Adds the options of a command whose workers are measured in turns."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line."),
        click.option(
            "--seconds",
            type=ABOVE_ZERO,
            default=5.0,
            show_default=True,
            help="Approximate length of a round in seconds.",
        ),
        click.option("--rounds", type=COUNT, default=5, show_default=True, help="Number of timed rounds per side."),
        click.option("--threads", type=THREADS, default=2, show_default=True, help="Number of threads per side."),
    ):
        command = option(command)
    return command


def command(script: str, python: str, settings: Mapping[str, Any]) -> list[str]:
    """The command that runs a peer's ``script`` in the interpreter ``python``."""
    return [python, "-P", str(_PEERS / f"{script}.py"), json.dumps(settings)]


def check(python: str, needed: Sequence[str] = ("torch", "transformers")) -> None:
    """Raises `UsageError` if ``python`` is no interpreter, or lacks packages in ``needed``."""
    if python == sys.executable:
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
    else:
        code = f"import importlib.util as u; print(*[n for n in {tuple(needed)} if u.find_spec(n) is None])"
        try:
            found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(f"{python} is not a Python interpreter that runs: {error}.") from error
        missing = found.stdout.split()
    if missing:
        raise UsageError(
            f"The peer needs {' and '.join(missing)}: `{python} -m pip install {' '.join(missing)}`, "
            "or name another interpreter with --peer-python."
        )
