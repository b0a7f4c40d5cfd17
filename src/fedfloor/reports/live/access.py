"""Who may ask: the names under which a page may be reached, and the token that opens it from other machines."""

__all__ = ["Access", "is_loopback"]

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Self
from urllib.parse import urlsplit

_BITS = 256  #: of a token


@dataclass(frozen=True, slots=True)
class Access:
    """What a request must bring."""

    names: frozenset[str]  #: names of this machine, in lower case; numeric addresses are always accepted
    cookie: str  #: name of the cookie; browsers keep one for all ports of a machine
    token: str | None  #: None: everybody who reaches the port may look

    @classmethod
    def of(cls, host: str, port: int, *, token: bool) -> Self:
        """Access to a server on this host and port, with a new token if there is to be one."""
        names = frozenset({host.lower(), "localhost", socket.gethostname().lower()})
        return cls(names, f"fedfloor-{port}", secrets.token_urlsafe(_BITS // 8) if token else None)

    def is_known_host(self, header: str | None) -> bool:
        """Whether the header `Host` names this machine.

        Another site can make its own name lead here and then read what we answer (DNS rebinding). It cannot do so
        with a numeric address, nor with a name that is not its own. With a token, a longer name of the machine is
        accepted too: without the token, a site that has such a name learns nothing.
        """
        if not header:
            return False
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        is_longer = self.token is not None and name.partition(".")[0] in self.names
        return name in self.names or is_longer or _is_address(name)

    def is_right(self, token: str) -> bool:
        """Whether this is the token; the comparison takes as long for every wrong one."""
        return self.token is not None and hmac.compare_digest(token.encode(errors="replace"), self.token.encode())

    def is_open(self, authorization: str, cookies: str) -> bool:
        """Whether a request with these headers may be answered: it brings the token as `Bearer` or as our cookie."""
        if self.token is None:
            return True
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "bearer" and self.is_right(given.strip()):
            return True
        try:
            morsel = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return False
        return morsel is not None and self.is_right(morsel.value)

    def set_cookie(self) -> str:
        """The header that lets a browser in after it has shown the token once."""
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax"


def is_loopback(address: str) -> bool:
    """Whether an address is reached from this machine only."""
    return _is_address(address) and ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
