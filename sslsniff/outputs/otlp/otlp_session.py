"""Sends requests of OTLP over HTTP, and accepts only the answers that mean a success."""

from typing import Any

import requests

from sslsniff.outputs.otlp.otlp_answers import Answers, NotAcceptedError

_LONGEST_ANSWER_BYTES = 1 << 20


class StrictSession(requests.Session):
    """Sends requests of OTLP/HTTP; raises ``NotAcceptedError`` for what the SDK wrongly accepts."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self._answers = answers

    def request(self, method: str, url: str, **options: Any) -> requests.Response:  # type: ignore[override]
        """See ``requests.Session``: redirects are not followed, as they change POST into GET."""
        response = super().request(method, url, **{**options, "allow_redirects": False})
        status = response.status_code
        if 300 <= status < 400:
            to = response.headers.get("Location", "nowhere")
            raise NotAcceptedError(f"it redirects ({status}) to {to}: name that address")
        if status >= 400:
            return response
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if status == requests.codes.ok:
            try:
                self._answers.read(kind, response.content[:_LONGEST_ANSWER_BYTES])
            except ValueError:
                pass
            else:
                return response
        shown = f"{status}, {kind or 'without a content type'}"
        raise NotAcceptedError(f"it answers ({shown}) as no receiver of OTLP does: see its address")
