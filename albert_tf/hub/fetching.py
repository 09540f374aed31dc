"""Fetches a file from a server: resumed, and checked against what the server says of it."""

import base64
import contextlib
import http.client
import logging
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from typing import Any

import google_crc32c

from albert_tf.errors import InputError
from albert_tf.files import remove, sync, write_text
from albert_tf.terminal import ProgressLine, duration

logger = logging.getLogger(__name__)

# Where addresses are looked up instead: MIRROR/HOST/PATH. For networks with a mirror, and tests.
MIRROR_VARIABLE = "ALBERT_TF_MIRROR"

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 30
_ATTEMPTS = 3
_PAUSE_SECONDS = 5


class FetchError(Exception):
    """A file that could not be fetched; the message is the reason, in a few words."""


def fetch(address: str, path: str) -> None:
    """Fetch a file from `https://...`; a later call resumes one that was interrupted.

    The unfinished file is kept next to `path` under a hidden name, with what identifies the
    version on the server. If it changed in between, or the server gives no parts of files,
    fetching starts from the beginning. The folder must exist.

    Raises:
        FetchError: If the server cannot be reached, has no such file, or the file is damaged.
        OSError: If the file cannot be written.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise FetchError("HF_HUB_OFFLINE is set")  # which applies to other servers, too
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.download")
    for attempt in range(_ATTEMPTS):
        try:
            checksum = _receive(address, partial)
            break
        except _Interrupted as error:
            if attempt == _ATTEMPTS - 1:
                raise FetchError(f"{error}; what was received is kept") from None
            time.sleep(attempt * _PAUSE_SECONDS)  # the first time, at once
    _check(partial, checksum)
    sync(partial)
    os.replace(partial, path)
    remove(_version_file(partial))


class _Interrupted(Exception):
    """A connection that broke, after which fetching can resume."""


def _version_file(partial: str) -> str:
    return f"{partial.removesuffix('.download')}.version"


def _receive(address: str, partial: str) -> str | None:
    """Fetch what is missing of a file; return the server's CRC-32C of all of it, in base64."""
    version_file = _version_file(partial)
    received = os.path.getsize(partial) if os.path.exists(partial) else 0
    version = _read_version(version_file) if received else None
    headers = {"User-Agent": "albert_tf"}
    if version:
        headers |= {"Range": f"bytes={received}-", "If-Range": version}
    try:
        response = _open(address, headers)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and version:
            remove(partial)
            raise _Interrupted("the unfinished file does not belong to this one") from None
        raise FetchError(f"HTTP {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(_reason(getattr(error, "reason", error))) from None
    with response:
        resumed = response.status == http.client.PARTIAL_CONTENT
        start = received if resumed else 0
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            remove(partial)
            raise _Interrupted("the server answered with another part of the file")
        length = response.headers.get("Content-Length")
        size = int(length) if length and length.isdecimal() else None
        total = None if size is None else start + size
        free = shutil.disk_usage(os.path.dirname(partial)).free
        if size and size > free:
            raise InputError(
                f"{os.path.dirname(partial)}: {size:,} bytes are needed, but only {free:,} are free"
            )
        if not resumed:
            remove(partial)
            _write_version(version_file, response)
        elif start:
            logger.info("%s: resuming after %s bytes", address, f"{start:,}")
        _copy(response, partial, start, total)
        stored = response.headers.get("x-goog-stored-content-encoding", "identity")
        hashes = response.headers.get("x-goog-hash", "") if stored == "identity" else ""
    found = re.search(r"crc32c=([A-Za-z0-9+/=]+)", hashes)
    return found[1] if found else None


def _open(address: str, headers: dict[str, str]) -> Any:
    """Open an address, or its mirror."""
    if mirror := os.environ.get(MIRROR_VARIABLE):
        address = f"{mirror.rstrip('/')}/{address.partition('://')[2]}"
    request = urllib.request.Request(address, headers=headers)
    response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    if address.startswith("https:") and not response.url.startswith("https:"):
        response.close()
        raise FetchError(f"redirects to {response.url}, which is not encrypted")
    return response


def _copy(response: Any, partial: str, start: int, total: int | None) -> None:
    progress = ProgressLine()
    received, started = start, time.monotonic()
    of_total = f" of {total / 1e6:,.0f}" if total else ""
    try:
        with open(partial, "ab") as file:
            while chunk := _read(response):
                file.write(chunk)
                received += len(chunk)
                seconds = time.monotonic() - started
                left = seconds / (received - start) * (total - received) if total else 0.0
                fields = [f"{duration(left)} left"] if total else []
                progress.update(f"{received / 1e6:,.0f}{of_total} MB fetched", *fields)
    except OSError as error:  # of the disk, which does not name the file
        raise OSError(error.errno, error.strerror, partial) from None
    finally:
        progress.clear()
    if total is not None and received != total:
        raise _Interrupted(f"the connection broke after {received:,} of {total:,} bytes")


def _read(response: Any) -> bytes:
    try:
        return response.read1(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(_reason(error)) from None


def _check(partial: str, checksum: str | None) -> None:
    """Remove a file whose CRC-32C is not `checksum`."""
    if checksum is None:
        return
    digest = google_crc32c.Checksum()
    with open(partial, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if base64.b64encode(digest.digest()).decode() != checksum:
        remove(partial)
        remove(_version_file(partial))
        raise FetchError("the checksum does not match that of the server; rerun to fetch it again")


def _write_version(path: str, response: Any) -> None:
    """Record what identifies the version of a file; a weak tag does not, byte by byte."""
    tag = response.headers.get("ETag", "")
    if tag.startswith("W/"):
        tag = ""
    version = tag or response.headers.get("Last-Modified", "")
    write_text(path, version, durable=False)


def _read_version(path: str) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
        return file.read() or None
    return None


def _reason(error: object) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]
