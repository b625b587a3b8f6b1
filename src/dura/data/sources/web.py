"""Web: ask a server over HTTP, with limits. What goes wrong is one sentence that holds no password.

A body is read in parts. Somebody who reads them sees a body that breaks off, and decides how many bytes are too many.
"""

from __future__ import annotations

import base64
import email.utils
import http.client
import io
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from typing import IO, Any
from urllib.parse import unquote, urlencode, urljoin, urlsplit

from dura.data.sources.databases import one_line, password_of, without_secrets
from dura.types import BadInput, DuraError, __version__

AGENT = f"dura/{__version__}"
TIMEOUT = 120.0
"""A question stops after this many seconds without a byte: servers may compute for long before they send anything."""
CHUNK = 1 << 18
TRIES = 3
"""How often a question is asked again if the server is busy."""
MOST_WAIT = 60.0
"""The most seconds that are waited before a question is asked again."""
BUSY = (429, 503)


@dataclass(frozen=True)
class Reply:
    """The answer of a server: its headers, and its body in parts."""

    shown: str
    headers: Message
    response: http.client.HTTPResponse

    @property
    def kind(self) -> str:
        """The type of the content, such as text/csv."""
        return self.headers.get_content_type()

    def parts(self) -> Iterator[bytes]:
        """The body. One that breaks off is an error."""
        size = 0
        try:
            while part := self.response.read1(CHUNK):
                size += len(part)
                yield part
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise DuraError(f"{self.shown} broke off after {size:,} bytes: {_reason(error)}") from None
        promised = length_of(self.headers)
        if promised is not None and size < promised:
            raise DuraError(f"{self.shown} broke off after {size:,} of {promised:,} bytes")
        if promised is not None and size > promised:
            raise DuraError(f"{self.shown} sends more than the {promised:,} bytes that its Content-Length promises")


def length_of(headers: Mapping[str, str] | Message) -> int | None:
    """The length that a server promises, if it is a number."""
    text = (headers.get("Content-Length") or "").strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


@contextmanager
def ask(address: str, form: Mapping[str, str], accept: str) -> Iterator[Reply]:
    """Send a form and give the reply. A server that is busy is asked again after a while, at most three times."""
    bare, headers = _sign_in(address)
    shown = without_secrets(address)
    for attempt in range(TRIES + 1):
        request = urllib.request.Request(bare, urlencode(form).encode(), {"User-Agent": AGENT, "Accept": accept})
        for name, value in headers.items():
            request.add_unredirected_header(name, value)  # another host must not see it
        try:
            response = urllib.request.build_opener(_Redirects).open(request, timeout=TIMEOUT)
            break
        except urllib.error.HTTPError as error:
            with error:
                wait = _wait(error.headers, attempt)
                if error.code not in BUSY or attempt == TRIES or wait > MOST_WAIT:
                    raise DuraError(f"{shown} answers {_status(error)}") from None
            time.sleep(wait)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise DuraError(f"{shown} cannot be reached: {_reason(error)}") from None
    with response:
        coding = response.headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":
            raise DuraError(f"{shown} sends its answer compressed ({one_line(coding)}) although that was not asked for")
        yield Reply(shown, response.headers, response)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow a redirection with the form, and only to another web address. A secure address never leads to an open one."""

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage
    ) -> Any:
        """Leave the body of a redirection alone: it may be endless."""
        fp.close()
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        target = urlsplit(urljoin(req.full_url, newurl))
        if target.scheme not in ("http", "https") or (req.type == "https" and target.scheme == "http"):
            raise http.client.HTTPException(
                f"it redirects to {one_line(without_secrets(target.geturl()))!r}, which is not followed"
            )
        same = target.netloc == urlsplit(req.full_url).netloc
        following = urllib.request.Request(
            target.geturl(),
            None if code == 303 else req.data,
            req.headers,
            origin_req_host=req.origin_req_host,
            unverifiable=True,
        )
        following.unredirected_hdrs = {
            name: value for name, value in req.unredirected_hdrs.items() if same and name == "Authorization"
        }
        return following


def _sign_in(address: str) -> tuple[str, dict[str, str]]:
    """The address without user and password, and the header that holds them."""
    if re.search("[@/?#]", password_of(address)):
        raise BadInput(
            f"the password in {without_secrets(address)} holds @, /, ? or #; write them as %40, %2F, %3F, %23"
        )
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        raise BadInput(f"{without_secrets(address)!r} is not an address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[\s\x00-\x1f]", address):
        raise BadInput(f"{without_secrets(address)!r} is not an address that begins with http:// or https://")
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return address, {}
    name, _, password = user.partition(":")
    token = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {token}"}


def _wait(headers: Message, attempt: int) -> float:
    """How many seconds to wait before the next try: what the server asks for, else 1, 2, 4."""
    asked = (headers.get("Retry-After") or "").strip()
    if re.fullmatch(r"[0-9]{1,9}", asked):
        return float(asked)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(asked).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return float(2**attempt)


def _status(error: urllib.error.HTTPError) -> str:
    """The code of an error and the first line of what the server says."""
    try:
        body = error.read(4096).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, ValueError):
        body = ""
    said = one_line(re.sub(r"(?s)<(style|script|head).*?</\1>|<[^>]*>", "", body))
    reason = one_line(str(error.reason)) if error.reason else ""
    return f"{error.code} {reason}".strip() + (f": {said!r}" if body.strip() else "")


def _reason(error: Exception) -> str:
    reason: Any = getattr(error, "reason", None) or error
    return one_line(str(reason) or type(reason).__name__)
