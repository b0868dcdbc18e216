"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a client proves that it knows the password without sending it.

    verifier = PasswordVerifier.of("pencil")         at start: keys are derived from the password, which is forgotten
    exchange = ScramExchange(verifier)
    exchange.first(b"n,,n=,r=abc")                   → b"r=abcXYZ,s=…,i=4096"
    exchange.final(b"c=biws,r=abcXYZ,p=…")           → b"v=…": the server's own proof; AuthenticationFailed if the client's is wrong

The library scramp runs the exchange and compares proofs in constant time. Two rules of PostgreSQL are added here:

| rule | scramp alone |
|---|---|
| the user name of the exchange is ignored, and libpq sends an empty one | refuses an empty name |
| a password that SASLprep forbids (a tab, an emoji) is used as it is | refuses such a password |

The verifier holds `StoredKey` and `ServerKey`: a reader of this memory can check a proof but cannot make one. There is no channel
binding: Python does not give a server its own certificate.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass

from scramp import ScramException, ScramMechanism
from scramp.utils import saslprep

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096


class AuthenticationFailed(Exception):  # noqa: N818  # reads as what it is
    """The proof is wrong, or the message is malformed; clients see no difference."""


@dataclass(frozen=True)
class PasswordVerifier:
    """The keys that check a password, without the password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int = ITERATIONS

    def __repr__(self) -> str:
        return "PasswordVerifier(…)"

    @staticmethod
    def of(password: str, salt: bytes | None = None) -> PasswordVerifier:
        """Derives the keys of a password; the salt is random unless it is given."""
        salt = os.urandom(16) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha256", prepare(password).encode(), salt, ITERATIONS)
        client_key, server_key = (
            hmac.digest(salted, name, "sha256") for name in (b"Client Key", b"Server Key")
        )
        return PasswordVerifier(salt, hashlib.sha256(client_key).digest(), server_key)


class ScramExchange:
    """The two steps of one client's authentication. A failed step ends it."""

    def __init__(self, verifier: PasswordVerifier, nonce: str | None = None) -> None:
        keys = (verifier.salt, verifier.stored_key, verifier.server_key, verifier.iterations)
        self._server = ScramMechanism(MECHANISM).make_server(lambda user: keys, s_nonce=nonce)

    def first(self, message: bytes) -> bytes:
        """Takes the client's nonce; returns the server's nonce and the salt."""
        try:
            text = message.decode("utf-8")
            flag, authorization, bare = text.split(",", 2)
            name, attributes = bare.split(",", 1)
            known = f"n=*,{attributes}" if name.startswith("n=") else bare
            self._server.set_client_first(f"{flag},{authorization},{known}")
            self._server.client_first_bare = bare  # the proof signs what the client sent
            return str(self._server.get_server_first()).encode()
        except (ScramException, ValueError):
            raise AuthenticationFailed from None

    def final(self, message: bytes) -> bytes:
        """Checks the client's proof; returns the server's."""
        try:
            self._server.set_client_final(message.decode("utf-8"))
            return str(self._server.get_server_final()).encode()
        except (ScramException, ValueError):
            raise AuthenticationFailed from None


def prepare(password: str) -> str:
    """Applies SASLprep (RFC 4013); a password that it forbids stays unchanged, as in PostgreSQL."""
    try:
        return saslprep(password) or password
    except ScramException:
        return password
