"""Addresses on this machine for processes that talk to each other."""

import contextlib
import socket


def free_addresses(count: int) -> tuple[str, ...]:
    """As many addresses, each with a port of its own that is free now."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return tuple(f"127.0.0.1:{server.getsockname()[1]}" for server in servers)
