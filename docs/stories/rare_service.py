"""A service of files by aiohttp: ``rare_service PORT``. Some answers it does not send whole."""

import random
import sys

from aiohttp import web

from docs.stories.system import server_tls

_ONE_IN = 300
_BODY = b"x" * 5_507
_CUT_AT = 2_900


async def download(request: web.Request) -> web.StreamResponse:
    """Answer with a file; sometimes the connection is reset within it."""
    response = web.StreamResponse()
    response.content_length = len(_BODY)
    await response.prepare(request)
    await response.write(_BODY[:_CUT_AT])
    if random.randrange(_ONE_IN) == 0:
        assert request.transport is not None
        request.transport.abort()
        return response
    await response.write(_BODY[_CUT_AT:])
    return response


def main() -> None:
    """Serve."""
    application = web.Application()
    application.router.add_get("/files/{name}", download)
    web.run_app(
        application, host="127.0.0.1", port=int(sys.argv[1]), ssl_context=server_tls(), print=None
    )


if __name__ == "__main__":
    main()
