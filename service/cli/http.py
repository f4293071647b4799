"""A thin client of the REST API. It turns the service's refusals into errors whose text is a sentence."""

import json
import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from compositions.errors import RecomposeError

T = TypeVar("T")
DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 60.0
"""Timeout of a request, in seconds; a stop with its drain takes less."""


class ServiceError(RecomposeError):
    """The service refused, with its ``problem`` and the time after which to retry, or it could not be reached."""

    def __init__(
        self, sentence: str, problem: Mapping[str, Any] = MappingProxyType({}), retry_after_s: float | None = None
    ) -> None:
        super().__init__(sentence)
        self.problem, self.retry_after_s = problem, retry_after_s


class Client:
    """Client of the service at ``url``; the token comes from ``RECOMPOSE_TOKEN``. Raises: ServiceError on a refusal."""

    def __init__(self, url: str, token: str | None = None) -> None:
        given = token or os.environ.get("RECOMPOSE_TOKEN")
        if given and not given.isascii():
            raise ServiceError("RECOMPOSE_TOKEN has characters outside ASCII; set it to the token of the service")
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        try:
            self._http = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False)
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            raise ServiceError(f"{url!r} is not a URL such as {DEFAULT_URL}") from error
        self._url = url

    def get(self, path: str, **params: Any) -> Any:
        return self.request("GET", path, params=params)

    def request(self, method: str, path: str, **rest: Any) -> Any:
        try:
            response = self._http.request(method, path, **rest)
        except httpx.HTTPError as error:
            raise ServiceError(_unreachable(self._url, error)) from error
        return _answer(self._url, response)

    def stream(self, path: str) -> Iterator[Any]:
        """Yield server-sent events as JSON values, until the service ends."""
        try:
            with self._http.stream("GET", path, timeout=httpx.Timeout(TIMEOUT_S, read=20.0)) as response:
                if response.is_error:
                    response.read()
                    _answer(self._url, response)
                for line in response.iter_lines():
                    if line.startswith("data:"):
                        yield json.loads(line[5:])
        except httpx.HTTPError as error:
            raise ServiceError(_unreachable(self._url, error)) from error

    def close(self) -> None:
        self._http.close()


def read(form: type[T], answer: Any) -> T:
    """Return an answer as bodies of type ``form``; unknown fields are kept. Raises: ServiceError."""
    try:
        return TypeAdapter(form).validate_python(answer)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"not understood ({'.'.join(map(str, first['loc']))}: {first['msg']})"
        raise ServiceError(f"the service's answer is {what}; is the service of another version?") from error


def segment(name: str) -> str:
    return quote(name, safe="")


def _unreachable(url: str, error: Exception) -> str:
    if isinstance(error, httpx.UnsupportedProtocol):
        return f"{url!r} is not a URL such as {DEFAULT_URL}"
    return f"no answer from {url} ({type(error).__name__}); start it with recompose serve, or give --url"


def _answer(url: str, response: httpx.Response) -> Any:
    if response.is_success:
        return response.json() if response.content else None
    try:
        problem = dict(response.json())
    except (ValueError, TypeError):
        problem = {}
    detail = problem.get("detail", f"{url} answered {response.status_code} and is no Recompose service; check --url")
    if response.status_code == 404 and problem:
        detail = f"{detail} (asked of {url})"
    after = response.headers.get("retry-after", "")
    raise ServiceError(str(detail), problem, float(after) if after.isdecimal() else None)
