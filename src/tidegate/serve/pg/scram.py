"""SCRAM-SHA-256 (RFC 5802, RFC 7677): a client proves that it knows the password, and never sends it.

    secret = Secret.of("pencil")               at start: the password is salted, and forgotten
    talk = Exchange(secret)
    talk.first(b"n,,n=,r=abc")                 → b"r=abcXYZ,s=…,i=4096"
    talk.final(b"c=biws,r=abcXYZ,p=…")         → b"v=…": the server proves itself too; Refused if the proof is wrong

What is kept is `StoredKey` and `ServerKey`: whoever reads this memory can check a proof and not make one. Proofs are compared
in constant time. There is no channel binding: Python does not tell a server its own certificate.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import stringprep
import unicodedata
from dataclasses import dataclass

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096


class Refused(Exception):  # noqa: N818  # reads as what it is
    """The proof is wrong, or is none."""


@dataclass(frozen=True)
class Secret:
    """What is kept of a password."""

    salt: bytes
    stored: bytes
    server: bytes
    iterations: int = ITERATIONS

    def __repr__(self) -> str:
        return "Secret(…)"

    @staticmethod
    def of(password: str) -> Secret:
        """Of a password, with salt of its own."""
        salt = os.urandom(16)
        salted = hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), salt, ITERATIONS)
        return Secret(salt, hashlib.sha256(_mac(salted, b"Client Key")).digest(), _mac(salted, b"Server Key"))


class Exchange:
    """One client's proof."""

    def __init__(self, secret: Secret) -> None:
        self.secret = secret
        self.bare, self.header, self.nonce, self.said = b"", b"", b"", b""

    def first(self, message: bytes) -> bytes:
        """The client's name and nonce; our nonce and salt."""
        flag, _, rest = message.partition(b",")
        authority, _, bare = rest.partition(b",")
        words = _words(bare)
        if flag not in (b"n", b"y") or b"r" not in words or not words[b"r"] or b"m" in words:
            raise Refused
        self.header, self.bare = flag + b"," + authority + b",", bare
        self.nonce = words[b"r"] + base64.b64encode(os.urandom(18))
        salt = base64.b64encode(self.secret.salt)
        self.said = b"r=" + self.nonce + b",s=" + salt + b",i=%d" % self.secret.iterations
        return self.said

    def final(self, message: bytes) -> bytes:
        """The client's proof; ours."""
        without, _, proof = message.rpartition(b",p=")
        words = _words(without)
        bound = base64.b64encode(self.header)
        if words.get(b"c") != bound or not hmac.compare_digest(words.get(b"r", b""), self.nonce):
            raise Refused
        signed = b",".join((self.bare, self.said, without))
        try:
            given = base64.b64decode(proof, validate=True)
        except (binascii.Error, ValueError):
            raise Refused from None
        signature = _mac(self.secret.stored, signed)
        if len(given) != len(signature):
            raise Refused
        found = hashlib.sha256(bytes(a ^ b for a, b in zip(given, signature, strict=True))).digest()
        if not hmac.compare_digest(found, self.secret.stored):
            raise Refused
        return b"v=" + base64.b64encode(_mac(self.secret.server, signed))


def prepared(password: str) -> str:
    """A password as SASLprep (RFC 4013) has it; one that it forbids as it is, as PostgreSQL does."""
    if password.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )
    found = unicodedata.normalize("NFKC", mapped)
    forbidden = (
        stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
        stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
        stringprep.in_table_c9, stringprep.in_table_a1,
    )  # fmt: skip
    return password if not found or any(f(c) for c in found for f in forbidden) else found


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _words(message: bytes) -> dict[bytes, bytes]:
    """`r=abc,s=def` as a mapping; of a name that is given twice, the first."""
    found: dict[bytes, bytes] = {}
    for word in message.split(b","):
        name, is_pair, value = word.partition(b"=")
        if is_pair:
            found.setdefault(name, value)
    return found
