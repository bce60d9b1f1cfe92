"""The command line ``ptmbench``: maps command names to modules, and exceptions to exit statuses."""

import contextlib
import importlib
import keyword
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

import click

from ptmbench.bench import errors
from ptmbench.bench.commands import COMMANDS


class Lazy(click.Group):
    """A command group that reads names and help texts from `COMMANDS`, and imports only the command that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"ptmbench.bench.{COMMANDS[cmd_name].module}")
        return getattr(module, cmd_name + "_" * keyword.iskeyword(cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise errors.UsageError(f"There is no command '{args[0]}'.{nearest(args[0])} `ptmbench --help` shows all.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


def nearest(name: str) -> str:
    """Returns a hint such as " Nearest: run.", or "" if no command has a similar name."""
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=3)
    return f" Nearest: {', '.join(near)}." if near else ""


@click.group(cls=Lazy, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ptmbench", prog_name="ptmbench")
@click.option(
    "--debug", is_flag=True, help="Show tracebacks; allowed anywhere in the command (or set PTMBENCH_DEBUG=1)."
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="DIR",
    help="Folder with your own models, objectives, tasks or adaptations; may be given anywhere and repeatedly.",
)
@click.pass_context
def commands(ctx: click.Context, debug: bool, plugins: Sequence[str]) -> None:
    """Compare pre-trained language models: same corpus, vocabulary, size and compute, every cell with its cost.

    Begin with `ptmbench run demo`.

    \b
    Exit status:
      0    done
      1    some cells failed; gate: a regression
      2    wrong usage
      3    gate --strict: a pass on average, or inconclusive
      4    missing or broken data, checkpoint or machine
      5    invalid baseline
      70   internal error, a bug in ptmbench
      130  stopped by Ctrl-C (143: by SIGTERM)
    """
    from importlib import metadata

    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    elif plugins or metadata.entry_points(group="ptmbench.plugins"):
        from ptmbench.bench.runs.plugins import use, use_installed

        use_installed()
        for folder in plugins:
            use(Path(folder))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status. Reports every exception on stderr and raises none."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given or os.environ.get("PTMBENCH_DEBUG", "0") not in ("", "0")
    given = _first("--plugin", [argument for argument in given if argument != "--debug"])
    _open_closed()
    try:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:  # a caller may start us with SIGTERM ignored
            signal.signal(signal.SIGTERM, _terminated)
        code = _run(given)
        sys.stdout.flush()  # here, so that a full disk or a closed pipe is still reported
        return code if isinstance(code, int) else errors.OK
    except BaseException as error:
        if debug and not isinstance(error, BrokenPipeError):
            import traceback

            traceback.print_exception(error)
        return _report(error, debug)


def _first(flag: str, arguments: list[str]) -> list[str]:
    """Moves each ``flag`` and its value to the front of ``arguments``, where the top-level group reads them."""
    front, rest, left = [], [], iter(arguments)
    for argument in left:
        if argument == flag and (value := next(left, None)) is not None:
            front += [flag, value]
        else:
            (front if argument.startswith(f"{flag}=") else rest).append(argument)
    return front + rest


def _run(arguments: list[str]) -> object:
    """Does what click's own ``main`` does, except for its handling of pipes and interrupts."""
    try:
        with commands.make_context("ptmbench", arguments) as context:
            return commands.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code


def _report(error: BaseException, debug: bool) -> int:
    """Prints on stderr what went wrong, and returns the exit status."""
    if isinstance(error, BrokenPipeError):
        _drop(sys.stdout)
        return errors.BROKEN_PIPE
    if isinstance(error, OSError):
        _drop(sys.stdout)
    if isinstance(error, SystemExit):
        if error.code == errors.TERMINATED:
            _tell("Stopped by SIGTERM. Run the same command again to resume.")
        return error.code if isinstance(error.code, int) else errors.UNEXPECTED
    if isinstance(error, KeyboardInterrupt | click.Abort):
        _tell("Stopped. Run the same command again to resume.")
        return errors.INTERRUPTED
    if isinstance(error, click.ClickException):
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "ptmbench"
        _tell(f"{errors.printable(error.format_message())} `{path} --help` shows the choices.")
        return errors.USAGE
    status = errors.status(error)
    _tell(errors.sentence(error))
    if status == errors.UNEXPECTED and not debug:
        _tell("This is a bug in ptmbench. Run the same command with --debug to see the traceback, and report it.")
    return status


def _tell(text: str) -> None:
    """Prints a sentence on stderr, unless stderr is closed."""
    try:
        print(f"ptmbench: {text}", file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)


def _open_closed() -> None:
    """Opens standard streams that the caller closed (``>&-``) on the null device. Otherwise the next file would get the
    stream's number, and the output of libraries would be written into it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  it stays open


def _drop(stream: TextIO) -> None:
    """Redirects a stream that cannot be written to the null device, or Python would report it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(errors.TERMINATED)


if __name__ == "__main__":
    sys.exit(main())
