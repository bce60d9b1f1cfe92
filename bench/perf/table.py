"""Prints a table on stdout, each line as soon as it is measured, as Markdown (also for README.md) or JSON lines."""

import json
from collections.abc import Mapping
from typing import Any

import click


class Table:
    """A table. ``columns`` maps names to (heading, format). The cell of a missing value or of None is empty."""

    def __init__(self, columns: Mapping[str, tuple[str, str]], as_json: bool = False):
        self.columns, self.as_json, self.begun = columns, as_json, False

    def add(self, row: Mapping[str, Any]) -> None:
        if self.as_json:
            click.echo(json.dumps(dict(row)))
            return
        if not self.begun:
            self.begun = True
            click.echo(f"| {' | '.join(heading for heading, _ in self.columns.values())} |")
            click.echo(f"|{'---|' * len(self.columns)}")
        cells = ("" if row.get(name) is None else form.format(row[name]) for name, (_, form) in self.columns.items())
        click.echo(f"| {' | '.join(cells)} |")
