"""`observant completion`: commands and options completed by a shell."""

from __future__ import annotations

import click

from observant.cli.values import Choice


@click.command("completion", short_help="Complete commands and options in your shell.")
@click.argument("shell", type=Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print what makes a SHELL complete commands and options: bash, zsh or fish.

    \b
    Examples:
      observant completion bash >> ~/.bashrc
      observant completion zsh >> ~/.zshrc
      observant completion fish > ~/.config/fish/completions/observant.fish
    """
    from click.shell_completion import get_completion_class

    from observant.cli import cli

    found = get_completion_class(shell)
    if found is not None:
        made = found(cli, {}, "observant", "_OBSERVANT_COMPLETE")
        text = made.source_template % made.source_vars()  # `source` would ask which bash runs
        click.echo(text.strip())
