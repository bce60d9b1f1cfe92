"""``doctor``: is this machine ready, and what would a record say about it."""

import click

from ptmbench.bench.errors import ENVIRONMENT, OK


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of findings.")
def doctor(as_json: bool) -> int:
    """Check this machine and the installation. Exit status 4 if something that is needed is missing."""
    from dataclasses import asdict

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
