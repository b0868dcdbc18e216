"""An S3 server without conditional writes: a proxy before the real one that takes `If-None-Match` out of requests, and signs again.

    with unconditional(servers.s3()) as options: ObjectBlob.open("s3://lake/x", **options)

With `answer=501` it refuses such requests instead, as servers do that do not know the header.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.servers import S3

_SIGNED = re.compile(r"SignedHeaders=([^,]+)")


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    options: S3
    answer: int | None

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.answer is not None and "if-none-match" in self.headers:
            return self.give(self.answer, [], b"<Error><Code>NotImplemented</Code></Error>")
        headers = {name.lower(): value for name, value in self.headers.items()}
        headers.pop("if-none-match", None)
        headers["authorization"] = _signature(self.options, self.command, self.path, headers)
        upstream = http.client.HTTPConnection(urlsplit(self.options["endpoint"]).netloc, timeout=30)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            upstream.putheader(name, value)
        upstream.endheaders(body)
        response = upstream.getresponse()
        data = response.read()
        upstream.close()
        return self.give(response.status, response.getheaders(), data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on  # noqa: N815  # the names that http.server calls

    def give(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def unconditional(options: S3, answer: int | None = None) -> Iterator[S3]:
    """The options of the proxy before the server of `options`."""
    handler = type("Handler", (_Handler,), {"options": options, "answer": answer})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield S3({**options, "endpoint": f"http://127.0.0.1:{server.server_port}"})
    finally:
        server.shutdown()
        server.server_close()


def _signature(options: S3, method: str, target: str, headers: dict[str, str]) -> str:
    """AWS Signature Version 4 of a request, over the headers that its client signed but for the condition."""
    found = _SIGNED.search(headers["authorization"])
    assert found is not None
    signed = [name for name in found[1].split(";") if name != "if-none-match"]
    path, _, query = target.partition("?")
    canonical_query = "&".join(sorted(one if "=" in one else f"{one}=" for one in query.split("&") if one))
    lines = [method, path, canonical_query, *(f"{name}:{headers[name].strip()}" for name in signed), ""]
    canonical = "\n".join([*lines, ";".join(signed), headers["x-amz-content-sha256"]])
    moment = headers["x-amz-date"]
    scope = f"{moment[:8]}/{options['region']}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{options['secret_access_key']}".encode()
    for step in (*scope.split("/"), text):
        key = hmac.digest(key, step.encode(), "sha256")
    who = f"Credential={options['access_key_id']}/{scope}"
    return f"AWS4-HMAC-SHA256 {who}, SignedHeaders={';'.join(signed)}, Signature={key.hex()}"
