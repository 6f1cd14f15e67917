"""The command line: ``heavytop COMMAND``.

Each command is a function, listed in :data:`COMMANDS`. Modules import the library inside their functions, so that ``heavytop --help`` is quick.
"""

from __future__ import annotations

import typer
from typer import Option

from heavytop.cli.bench import bench
from heavytop.cli.derive import derive, show
from heavytop.cli.doctor import doctor
from heavytop.cli.export import export
from heavytop.cli.fly import cockpit, fly
from heavytop.cli.identify import identify
from heavytop.cli.plan import plan
from heavytop.cli.simulate import simulate
from heavytop.cli.sweep import sweep
from heavytop.cli.terminal import Shell

COMMANDS = (fly, cockpit, derive, simulate, sweep, plan, identify, show, export, bench, doctor)


app = Shell(
    name="heavytop",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from heavytop._version import __version__

        typer.echo(f"heavytop {__version__}")
        raise typer.Exit


_FIRST = """\
heavytop derives, simulates, plans and controls rigid-body systems. Try

  heavytop fly                                    a quadcopter flies a loop; a page opens with a 3-D replay
  heavytop derive furuta                          equations of motion to read
  heavytop simulate heavy-top --page top.html     a motion with its invariants, and a page to watch it
  heavytop show robot.urdf --open                 your robot with a slider for every joint
  heavytop fly --list                             vehicles and maneuvers; --list works with every command that takes a name

heavytop --help lists all commands, heavytop COMMAND --help has examples, heavytop doctor checks the installation."""
"""What ``heavytop`` alone prints."""


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: bool = Option(False, "--version", callback=_version, is_eager=True, help="Print the version and exit."),
) -> None:
    """Derive, simulate, plan and control rigid-body systems globally, without singularities, from energy.

    Start with `heavytop fly`, then try `heavytop derive furuta` or `heavytop simulate heavy-top --page top.html`. Run `heavytop doctor` if something
    is wrong. Every command has a `--help` option with examples.
    \f
    >>> from typer.testing import CliRunner
    >>> CliRunner().invoke(app, ["--version"]).exit_code
    0
    """
    if context.invoked_subcommand is None:
        typer.echo(_FIRST)


for command in COMMANDS:
    app.command()(command)
