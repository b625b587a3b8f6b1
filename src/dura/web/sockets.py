"""Sockets: where the service listens. This module imports nothing heavy, because the supervisor of workers uses it too."""

from __future__ import annotations

import os
import socket

from dura.types import BadInput

BACKLOG = 2048
"""How many connections the system keeps until a process accepts them."""


def address_of(sock: socket.socket, host: str, *, tls: bool) -> str:
    """The address at which a listening socket can be asked."""
    name, scheme = f"[{host}]" if ":" in host else host, "https" if tls else "http"
    return f"{scheme}://{name}:{sock.getsockname()[1]}"


def listening(host: str, port: int) -> socket.socket:
    """A listening socket. asyncio sends answers at once only if the socket names the protocol TCP."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
        except OSError:
            sock.close()
            raise
        return sock
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"the service cannot listen at {host} port {port}: {why}; choose another with --host or --port"
        ) from None
