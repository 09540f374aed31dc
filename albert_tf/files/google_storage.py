"""Google Cloud Storage (`gs://`) as gcsfs reaches it, with the patience of `albert_tf.files`."""

import asyncio
import contextlib
import os
import re
import urllib.parse
from typing import Any

import aiohttp

# Before gcsfs is imported: its class for gRPC, which emulators do not speak, is not used here.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
_EMULATOR = os.environ.get("STORAGE_EMULATOR_HOST")
if _EMULATOR:  # under another name for tensorstore, which reads and writes checkpoints
    os.environ.setdefault("TENSORSTORE_GCS_HTTP_URL", _EMULATOR)

import gcsfs.core  # noqa: E402

from albert_tf.errors import InputError  # noqa: E402
from albert_tf.files.json_files import parse_json  # noqa: E402
from albert_tf.files.remote import BUSY, Patience, is_transient  # noqa: E402


class GoogleStorage(gcsfs.core.GCSFileSystem):
    """Repeats requests that may succeed later, and reports Google's own explanations."""

    protocol = ("gs", "gcs")

    def __init__(self, *args: Any, **kwargs: Any):
        ours = {
            "requests_timeout": aiohttp.ClientTimeout(sock_connect=30.0, sock_read=60.0),
            "session_kwargs": {"raise_for_status": _check_response},
            "token": "anon" if _EMULATOR else None,
            "use_listings_cache": False,  # as other processes write, too
        }
        super().__init__(*args, **{**ours, **kwargs})

    async def _request(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        patience = Patience(_place(self._format_path(path, args)))
        attempt = gcsfs.core.GCSFileSystem._request.__wrapped__  # without the patience of gcsfs
        while True:
            try:
                return await attempt(self, method, path, *args, **kwargs)
            except Exception as error:
                if not is_transient(error):
                    raise
                await asyncio.sleep(patience.seconds_after(error))

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Check that the bucket, which has no folders, exists and can be listed."""
        with contextlib.suppress(FileNotFoundError):
            await self._list_objects(path, max_results=1)


def _place(address: str) -> str:
    """Turn `https://.../b/bucket/o/a%2Fb?...` into `gs://bucket/a/b`."""
    path = re.sub(r".*?/b/([^/?]+)(?:/o/?([^/?]*))?.*", r"gs://\1/\2", address)
    return urllib.parse.unquote(path)


async def _check_response(response: aiohttp.ClientResponse) -> None:
    """Raise errors with Google's explanation, which gcsfs leaves out."""
    status = response.status
    if status < 400 or status in (412, 416, 499):  # gcsfs acts on them
        return
    text = await response.text(errors="replace")
    try:
        message = parse_json(text, "", dict[str, dict[str, Any]])["error"]["message"]
    except (InputError, KeyError):
        message = response.reason or "no explanation"
    message = f"{message} ({status})"
    if status in BUSY:
        raise ConnectionError(message)  # to be tried again
    if status == 404 and "specified bucket" not in message:
        raise FileNotFoundError(message)
    raise PermissionError(message) if status in (401, 403) else OSError(message)
