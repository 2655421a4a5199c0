"""``moorage completion``: the script that lets a shell complete commands, tools and names."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from moorage.cli import exit_codes
from moorage.cli.command_line import COMPLETION_VARIABLE, PROGRAM

EPILOG = """\b
Examples:
  echo 'eval "$(moorage completion bash)"' >> ~/.bashrc
  moorage completion zsh > ~/.zfunc/_moorage
  moorage completion fish > ~/.config/fish/completions/moorage.fish
"""

SHELLS: dict[str, type[ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print the completion script of a shell."""
    root = ctx.find_root().command
    script = SHELLS[shell](root, {}, PROGRAM, COMPLETION_VARIABLE)
    # ShellComplete.source, not the subclass's: Bash's own starts a Bash to check its version.
    click.echo(ShellComplete.source(script))
    return exit_codes.OK
