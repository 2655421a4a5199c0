"""``moorage mcp``: serve a workspace to an MCP client, over standard streams or HTTP."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import anyio
import click

from moorage.cli import exit_codes
from moorage.cli.parameters import Address
from moorage.cli.session_options import place_options
from moorage.errors import BackendUnavailable

EPILOG = """\b
Examples:
  moorage mcp --workspace ~/project
  moorage mcp --workspace ~/project --mode read_only
  moorage mcp --extension monitor
  moorage mcp --http 127.0.0.1:8765
  claude mcp add moorage -- moorage mcp --workspace "$PWD" --text-only

The environment and the mode are chosen here and nowhere else; no tool can change them.
"""


@click.command(epilog=EPILOG)
@place_options
@click.option(
    "--http", "address", type=Address(), metavar="HOST:PORT",
    help="Serve streamable HTTP here instead of standard streams.",
)  # fmt: skip
@click.option("--token-file", metavar="FILE", help="File with the bearer token of HTTP.")
@click.option(
    "--allow-remote", is_flag=True, help="Listen on an address that other machines reach."
)
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, metavar="NAME",
    help="One more Host header to accept; repeatable.",
)  # fmt: skip
@click.option(
    "--allowed-origin", "allowed_origins", multiple=True, metavar="URL",
    help="One more Origin header to accept, for clients in a browser; repeatable.",
)  # fmt: skip
@click.option(
    "--name", "session_name", metavar="NAME", help="Name of the session (standard streams only)."
)
@click.option(
    "--extension", "extensions", multiple=True, metavar="NAME",
    help="Offer the tools of an extension, such as monitor; repeatable.",
)  # fmt: skip
@click.option(
    "--no-hand-over", is_flag=True,
    help="Never let a slow command go on in the background by itself.",
)  # fmt: skip
@click.option(
    "--text-only",
    is_flag=True,
    help="Leave structured data out, for clients that show the model nothing else.",
)
def command(
    address: tuple[str, int] | None,
    *,
    extensions: tuple[str, ...],
    no_hand_over: bool,
    text_only: bool,
    **options: Any,
) -> int:
    """Serve a workspace to any MCP client until the client leaves."""
    if find_spec("mcp") is None or find_spec("uvicorn") is None:
        raise BackendUnavailable(
            "the MCP server's libraries are not installed.",
            hint="Install them with: pip install 'moorage[mcp]'",
        )
    # Late: this import costs most of a second, and needs the extra that was just looked for.
    from moorage.mcp_server import Options, run_http, run_stdio  # noqa: PLC0415

    host, port = address or ("127.0.0.1", 0)
    chosen = Options(
        structured_content=not text_only,
        extensions=extensions or None,
        hands_over=False if no_hand_over else None,
        host=host,
        port=port,
        **options,
    )
    anyio.run(run_stdio if address is None else run_http, chosen)
    return exit_codes.OK
