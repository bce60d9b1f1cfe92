"""The command ``perf``: measurements of speed and of the gate. Each is a module of this package with a ``command``."""

import importlib
from pathlib import Path

import click

from ptmbench.bench.errors import UsageError

_HELPERS = {"__init__", "curves", "peer", "table", "worker"}


class Measurements(click.Group):
    """A command group whose subcommands are the modules of `bench.perf`, except `_HELPERS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem not in _HELPERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        if cmd_name not in self.list_commands(ctx):
            raise UsageError(f"There is no measurement '{cmd_name}'. Choices: {', '.join(self.list_commands(ctx))}.")
        return importlib.import_module(f"ptmbench.bench.perf.{cmd_name}").command


@click.group(cls=Measurements)
def perf() -> None:
    """Measure speed on this machine, and compare it with other libraries. bench/perf/README.md has the results."""
