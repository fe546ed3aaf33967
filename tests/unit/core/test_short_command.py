"""What people know a started program by."""

import pytest

from sslsniff.core.short_command import short_command


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("", ""),
        ("/usr/bin/mcp-server", "mcp-server"),
        ("python3 /srv/tools/server.py --root /", "python3 server.py"),
        ("python3 -u -m mcp_server_git --repository x", "python3 mcp_server_git"),
        ("npx -y @modelcontextprotocol/server-filesystem /data", "npx server-filesystem"),
        ("uv run server.py", "uv run server.py"),
        ("server --token secret", "server"),
        ("server -k secret", "server"),
        ("mysql -psecret", "mysql"),
        ("sh -c TOKEN=secret;server", "sh"),
    ],
)
def test_short(command: str, shown: str) -> None:
    assert " ".join(short_command(command.split())) == shown
