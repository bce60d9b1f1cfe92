"""The command ``doctor``: checks the machine and the installation, and with --accelerator trains models on it."""

import json
from dataclasses import asdict
from typing import Any

import click

from ptmbench.bench.commands.options import BATCH, LENGTH, Duration, named
from ptmbench.bench.errors import CELLS_FAILED, ENVIRONMENT, OK, UsageError


@click.command()
@click.option(
    "--accelerator",
    is_flag=True,
    help="Train every model for a few steps on all GPUs or TPUs of this machine, or on its processor, and print a "
    "Markdown table: compiled in bfloat16, speed and memory, resumed, mirrored over all devices.",
)
@named("--models", help="Models of --accelerator (default: all).")
@named("--sizes", "--size", help="Sizes of --accelerator, also large (default: base,large; tiny on a processor).")
@named("--checks", help="Checks of --accelerator: graph, step, speed, resume, mirrored (default: all).")
@click.option("--batch", type=BATCH, help="Sequences per step of --accelerator (default: 64; 4 on a processor).")
@click.option("--length", type=LENGTH, help="Tokens per sequence of --accelerator (default: 128; 32 on a processor).")
@click.option(
    "--timeout",
    type=Duration(),
    default="10m",
    show_default=True,
    metavar="TIME",
    help="Time that each model and size may take with --accelerator: 90, 30m, 2h.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: a list of findings, or an object per line with --accelerator."
)
def doctor(accelerator: bool, as_json: bool, timeout: float, **chosen: Any) -> int:
    """Check this machine and the installation. Exit status 4 if something that is needed is missing, and 1 if a model
    does not pass the checks of --accelerator."""
    if accelerator:
        return _prove(timeout, as_json, **chosen)
    if given := next((name for name, value in chosen.items() if value is not None), None):
        raise UsageError(f"--{given} is for --accelerator. Give both, or leave it out.")
    from ptmbench.bench.commands.doctor import examine

    findings = []
    for finding in examine():
        findings.append(finding)
        if not as_json:
            mark = {"ok": "  ", "warning": "? ", "missing": "! "}[finding.state]
            click.echo(f"{mark}{finding.name:<28} {finding.value}")
            if finding.advice:
                click.echo(f"  {'':<28} {finding.advice}")
    if as_json:
        from ptmbench.bench.commands.files import dumps

        click.echo(dumps([asdict(finding) for finding in findings]))
    return ENVIRONMENT if any(finding.state == "missing" for finding in findings) else OK


def _prove(timeout: float, as_json: bool, *, models: Any, sizes: Any, checks: Any, batch: Any, length: Any) -> int:
    from ptmbench.bench.console import say
    from ptmbench.bench.runs.proof import cases, report

    cases.planned("CPU", models, sizes, checks, length=length)  # reports unknown names before anything runs
    device = cases.devices(timeout)
    planned = cases.planned(device["kind"], models, sizes, checks, batch=batch, length=length)
    rows = []
    if not as_json:
        click.echo(f"{report.about(device, asdict(planned[0]))}\n\n{report.head(planned[0].checks)}")
    for row in cases.rows(planned, timeout, say):
        rows.append(row)
        click.echo(json.dumps({"device": device, **row}) if as_json else report.line(row, device))
    if not as_json:
        click.echo("\n".join(["", report.objectives(rows), *report.missing(device, rows)]))
    return CELLS_FAILED if any(map(report.mistake, rows)) else OK
