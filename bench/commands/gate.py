"""The commands ``gate`` (compares a run with a baseline), ``accept`` (makes records the baseline) and ``history``."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from ptmbench.bench.commands.options import Existing, Location
from ptmbench.bench.commands.registry import resolve
from ptmbench.bench.errors import EnvironmentProblem, UsageError

_SUMMARY = 900_000  # bytes; GitHub drops a step summary of more than 1 MiB without an error


def points(common: str) -> Callable[[click.Context, click.Parameter, Sequence[str]], dict[str, float]]:
    """Returns a callback that converts repeated ``task=points`` to a dict.

    ``common`` is a further accepted name. The callback raises `UsageError` for a malformed or
    repeated value, and `UnknownTask` for an unknown task.
    """

    def parse(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, float]:
        from ptmbench import tasks

        flag, found = param.opts[0], {}
        for value in values:
            name, _, text = value.partition("=")
            name = name.strip() if name.strip() == common else resolve("tasks", name.strip())
            try:
                number = float(text)
            except ValueError:
                number = -1.0
            if not name or not 0 < number < float("inf"):
                raise UsageError(f"{flag} takes TASK=POINTS, such as {flag} sst2=0.5 or {common}=1, not '{value}'.")
            if name in found:
                raise UsageError(f"{flag} {name} is given twice.")
            if name != common:
                tasks.load(name)
            found[name] = number
        return found

    return parse


@click.command()
@click.argument("base", type=Location())
@click.argument("head", type=Location())
@click.option(
    "--strict", is_flag=True, help="Exit with status 3 instead of 0 for the verdicts inconclusive and pass on average."
)
@click.option(
    "--margin",
    "chosen",
    multiple=True,
    metavar="TASK=POINTS",
    callback=points("macro"),
    help="Margin of a task, or of the mean of all tasks (macro), in points of the headline metric; may be repeated.",
)
@click.option(
    "--pretraining-sd",
    "stated",
    multiple=True,
    metavar="TASK=POINTS",
    callback=points("all"),
    help="Standard deviation of a task's score between pre-trainings, or of the scores of every task (all), in "
    "points (default: by metric). Used if HEAD was pre-trained again and neither side has several "
    "pre-trainings; may be repeated.",
)
@click.option("--json", "json_file", type=Location("file"), help="Write the comparison as JSON.")
@click.option("--junit", type=Location("file"), help="Write the comparison as JUnit XML, with one test case per cell.")
@click.option(
    "--markdown", type=Location("file"), help="Write the comparison as Markdown, for a comment on a pull request."
)
@click.option(
    "--github", is_flag=True, help="Add the comparison to the step summary of GitHub Actions, and print annotations."
)
def gate(
    base: Path,
    head: Path,
    strict: bool,
    chosen: dict[str, float],
    stated: dict[str, float],
    json_file: Path | None,
    junit: Path | None,
    markdown: Path | None,
    github: bool,
) -> int:
    """Compare the records of HEAD, a run folder, with the records of BASE, a run folder or an accepted baseline.

    \b
    Exit status:
      0  pass; without --strict, also pass on average and inconclusive
      1  regression
      2  wrong usage
      3  with --strict: pass on average or inconclusive
      4  nothing was measured, or something is missing
      5  the baseline is damaged or not comparable
    """
    if not Path(head).is_dir():
        raise EnvironmentProblem(f"There is no folder {head}, so nothing was measured. Give the --out of a run.")
    from ptmbench.bench.scoring import rescore
    from ptmbench.leaderboard.gate import report as gate_report
    from ptmbench.leaderboard.gate.gate import gate as work

    found = work(base, head, rescore.scored, chosen, stated)
    for path, text in ((json_file, gate_report.to_json), (junit, gate_report.to_junit)):
        if path:
            _write(path, text(found))
    if markdown:
        _write(markdown, gate_report.to_markdown(found))
    click.echo(gate_report.to_lines(found))
    if github:
        for line in gate_report.annotations(found):
            click.echo(line)
        _summarise(gate_report.to_markdown(found, limit=_SUMMARY // 4))  # a character has at most four bytes
    return found.status(strict)


@click.command()
@click.argument("records", type=Location())
@click.option("--reason", required=True, help="Why these scores are accepted, in one sentence; stored in the baseline.")
@click.option(
    "--baseline",
    type=Location("folder"),
    default=Path("baseline"),
    show_default=True,
    help="Folder of the baseline, for you to commit; an older baseline in it is replaced.",
)
@click.option(
    "--without-predictions",
    is_flag=True,
    help="Leave out predictions. Predictions quote the data, and not every licence allows you to publish quotations.",
)
@click.option(
    "--add",
    is_flag=True,
    help="Keep the records of the older baseline; replace only records of the same cells and seeds.",
)
def accept(records: Path, reason: str, baseline: Path, without_predictions: bool, add: bool) -> None:
    """Accept the records of the run folder RECORDS as the baseline for `gate`."""
    if not reason.strip():
        raise UsageError("A baseline needs a reason: say with --reason why these scores are right.")
    from ptmbench.leaderboard.records.baseline import accept as work

    warn = partial(click.echo, err=True)
    made: Any = work(records, baseline, reason, predictions=not without_predictions, warn=warn, add=add)
    sizes = [path.stat().st_size for path in baseline.rglob("*") if path.is_file()]
    count = sum(name.startswith("records/") for name in made.files)
    click.echo(f"{count} records in {sum(sizes) / 1024:.0f} KiB. Commit the folder.", err=True)
    click.echo(f"{baseline} {made.digest}")


@click.command()
@click.argument("baseline", type=Existing("baseline", folder=True))
@click.argument("cell", required=False)
def history(baseline: Path, cell: str | None) -> None:
    """Show how BASELINE, a folder that `accept` wrote, changed from commit to commit of its git repository.

    Without CELL, lists the commits, with the number of changed cells and the reason. CELL is part of a cell's name,
    such as sst2 or bert-tiny: lists the scores of these cells after each commit that changed them. The board's
    addresses have the names, too (#cell-NAME). Means and intervals of all commits follow today's rules.
    """
    from ptmbench.leaderboard import past

    told = past.commits(baseline) if cell is None else past.cells(baseline, cell)
    for note in told.notes:
        click.echo(f"ptmbench: {note}", err=True)
    for line in told.lines:
        click.echo("\t".join(line))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def _summarise(text: str) -> None:
    """Appends ``text`` to the step summary of GitHub Actions. Does nothing if GITHUB_STEP_SUMMARY is not set."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
