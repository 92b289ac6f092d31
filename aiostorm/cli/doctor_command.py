"""`aiostorm doctor`: check this machine."""

from __future__ import annotations

import sys

import click

from .options import json_option


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check this machine: what aiostorm needs, what is missing, and how to install it.

    Exit code 1 if a required part is missing. Optional parts (Spark, for example) may be missing.
    """
    from .doctor import examine
    from .report import table

    findings = examine()
    problem = any(finding.is_problem for finding in findings)
    if as_json:
        import dataclasses
        import json

        found = [{**dataclasses.asdict(finding), "problem": finding.is_problem} for finding in findings]
        click.echo(json.dumps({"ok": not problem, "findings": found}, indent=2))
    else:
        click.echo(table([(f.name, f.verdict, f.found) for f in findings], ("what", "", "found")))
        for finding in findings:
            if finding.advice:
                click.echo(f"\n{finding.name}: {finding.advice}")
    sys.exit(1 if problem else 0)
