"""Backup: the store's file, while the gateway goes on.  `gateway store backup` asks for it.

The answer is the file with its length, so that one that ends early is known to be a part.  Copies go one at a time: the
log of the store grows until the slowest reader has ended, and no reader may be slower than `LONGEST_WRITE` a piece.
"""

from contextlib import aclosing

import structlog
import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.admin.endpoint import Api, ApiError, Endpoint
from gateway.broker.core.ports import StoreError
from gateway.runtime.gateway import Gateway

LONGEST_WRITE = 30.0  # seconds for the reader to take a piece
_MEDIA_TYPE = "application/vnd.sqlite3"

log = structlog.get_logger("gateway.store")


class BackupApi(Api):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._is_copying = False

    @Endpoint(
        "GET",
        "/api/v1/store/backup",
        "gateway",
        media_type=_MEDIA_TYPE,
        errors=(409,),
        action="backup",
        example={"-o": "copy.db"},
    )
    async def backup(self) -> Response:
        """The store's file with all that is committed now; see `gateway store backup`."""
        return _Copy(self)

    async def send_file(self, send: Send) -> None:
        """Send the whole answer.  Raises ApiError: there is no file to copy, or another copy goes on."""
        if self._is_copying:
            raise ApiError(409, "another copy of the store is being made: ask again when it has ended")
        self._is_copying = True
        started = trio.current_time()
        try:
            async with self._gateway.frozen_store() as store:
                fields = [(b"content-type", _MEDIA_TYPE.encode()), (b"content-length", str(store.size).encode())]
                await send({"type": "http.response.start", "status": 200, "headers": fields})
                async with aclosing(store.pieces()) as pieces:
                    async for piece in pieces:
                        with trio.fail_after(LONGEST_WRITE):
                            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            log.info("the store was copied", bytes=store.size, seconds=round(trio.current_time() - started, 1))
        finally:
            self._is_copying = False


class _Copy(Response):
    """The answer, which is made while it is sent."""

    def __init__(self, api: BackupApi) -> None:
        super().__init__()
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._api.send_file(send)
        except StoreError as error:
            raise ApiError(409, str(error)) from None
        except trio.TooSlowError:
            log.warning("a copy of the store was not read to its end")
