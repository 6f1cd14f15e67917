"""Who may use the cockpit: browsers that opened its address with the token, and no page of another origin.

The server of viser takes every connection. Here its HTTP requests and WebSocket handshakes are looked at first: the address carries
a token that only this process knows, the page it opens gets it as a cookie, and a handshake needs the cookie and the origin of the server
itself. So another page in the same browser, or another user of the machine, cannot steer.
"""

from __future__ import annotations

import hmac
import http
import secrets
import threading
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from heavytop.errors import SimulationError

LARGEST_MESSAGE = 2**20
"""Bytes of a message from a browser; viser itself would take 50 MB."""
LOCAL = ("127.0.0.1", "localhost", "::1")
COOKIE = "heavytop"
_STARTING = threading.Lock()


class Guard:
    """Checks requests of browsers against a token of its own.

    Examples
    --------
    >>> guard = Guard("secret")
    >>> guard.allows("/?token=secret", {}), guard.allows("/?token=guess", {}), guard.allows("/", {"Cookie": "heavytop=secret"})
    (True, False, True)
    >>> shake = {"Upgrade": "websocket", "Host": "localhost:8080", "Origin": "http://evil.example", "Cookie": "heavytop=secret"}
    >>> guard.allows("/", shake), guard.allows("/", {**shake, "Origin": "http://localhost:8080"})
    (False, True)
    """

    def __init__(self, token: str | None = None) -> None:
        self.token = secrets.token_urlsafe(18) if token is None else token

    def allows(self, path: str, headers: Any) -> bool:
        """Whether a request may be answered; a handshake needs the server's own origin as well."""
        asked = parse_qs(urlsplit(path).query).get("token", [""])[0]
        upgrade = str(headers.get("Upgrade", "")).lower() == "websocket"
        known = self._is_token(self._cookie(headers)) or (self._is_token(asked) and not upgrade)
        if not upgrade:
            return known
        return known and urlsplit(str(headers.get("Origin", ""))).netloc == str(headers.get("Host", "-"))

    def process(self, inner: Callable[..., Any] | None) -> Callable[..., Any]:
        """The function that looks at requests before ``inner`` does."""

        def process_request(connection: Any, request: Any) -> Any:
            if not self.allows(request.path, request.headers):
                return connection.respond(http.HTTPStatus.FORBIDDEN, "Open the address that heavytop printed.\n")
            response = inner(connection, request) if inner is not None else None
            if response is not None:
                response.headers["Set-Cookie"] = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return response

        return process_request

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.token.encode())

    @staticmethod
    def _cookie(headers: Any) -> str:
        try:
            found = SimpleCookie(str(headers.get("Cookie", ""))).get(COOKIE)
        except CookieError:
            return ""
        return found.value if found is not None else ""


def guarded_server(viser: Any, guard: Guard, **options: Any) -> Any:
    """A viser server behind a guard.

    viser has no option for this, so the function that opens its port is wrapped while the server starts.
    """
    from websockets.asyncio import server as sockets

    opened = []
    original = sockets.serve

    def serve(*arguments: Any, **named: Any) -> Any:
        opened.append(True)
        named["process_request"] = guard.process(named.get("process_request"))
        named["max_size"] = LARGEST_MESSAGE
        return original(*arguments, **named)

    with _STARTING:
        sockets.serve = serve
        try:
            made = viser.ViserServer(**options)
        finally:
            sockets.serve = original
    if not opened:
        made.stop()
        raise SimulationError(
            "this version of viser opens its port in a way that cannot be guarded; install viser 1.1."
        )
    return made


def check_host(host: str, network: bool) -> None:
    """Refuse to serve other machines unless that was asked for in so many words."""
    if host not in LOCAL and not network:
        raise SimulationError(
            f"--host {host} lets other machines reach the cockpit, without encryption. Add --network (network=True) if you mean it."
        )
