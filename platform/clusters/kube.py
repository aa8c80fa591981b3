"""HTTP to an API server on the official Kubernetes client, which only this module imports."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import urllib3
import yaml
from kubernetes import config as kube_config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from clusters import answers
from clusters.asking import Failure, Json, Query
from clusters.budget import Budget
from clusters.port import ClusterError, Silent, Unreachable
from clusters.verbs import READ_SECONDS, KubeCluster

__all__ = ["KubeApi", "KubeCluster", "connect"]

CONNECT_SECONDS = 5.0
POOL_SIZE = 16
LOOK_SECONDS = 1.0

_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "logs": "GET",
    "create": "POST",
    "replace": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}

_CLUSTER_WIDE = frozenset({"nodes", "pods", "jobs", "events", "namespaces", "priorityclasses"})

Dial: TypeAlias = Callable[[], ApiClient]

# The client ships these without types.
_load_file: Callable[..., None] = kube_config.load_kube_config
_load_from_inside: Callable[..., None] = kube_config.load_incluster_config


def connect(
    name: str,
    *,
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    budget: Budget | None = None,
    later: bool = False,
) -> KubeCluster:
    """Return a cluster by its kubeconfig, else by the account of the pod we run in; bad settings raise ClusterError.

    ``later``: settings are read with the first request, which bad ones make Unreachable, and again until they are good.
    """
    if kubeconfig is None:
        return KubeCluster(name, KubeApi(_dial_from_inside, budget=budget, later=later))
    path = Path(kubeconfig).expanduser()
    return KubeCluster(name, KubeApi(lambda: _dial(path, context), budget=budget, later=later))


class KubeApi:
    """One API server: counts requests, bounds each in time, and reads its credentials anew when they are refused."""

    def __init__(
        self,
        dial: Dial,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
        budget: Budget | None = None,
        later: bool = False,
    ) -> None:
        """Make a first client, now or ``later``; ``dial`` makes further ones from the credentials as they are then."""
        self.requests: Counter[str] = Counter()
        self.budget = budget or Budget()
        self._dial = dial
        self.connect_seconds = connect_seconds
        self.read_seconds = read_seconds
        self._lock = Lock()
        self._client = None if later else dial()

    def ask(
        self,
        verb: str,
        path: str,
        *,
        query: Query | None = None,
        body: Json | None = None,
        media: str = "application/json",
    ) -> Json:
        """Make one request and return the decoded answer; raise Failure or Unreachable."""
        data = self._send(verb, path, query, body, media, self.read_seconds).read()
        try:
            answer = json.loads(data)
        except ValueError as error:
            raise Unreachable(f"{self._where(path)} answered with something that is not JSON: {data[:80]!r}") from error
        if not isinstance(answer, dict):
            raise Unreachable(f"{self._where(path)} answered with something that is no object: {data[:80]!r}")
        return answer

    def open(self, verb: str, path: str, *, query: Query, first: float, between: float) -> "KubeStream":
        """Make one request whose answer is read while it arrives; raise Failure or Unreachable."""
        stream = self._send(verb, path, query, None, "application/json", first)
        stream.wait_for(between)
        return stream

    def close(self) -> None:
        """Close connections that are kept open."""
        if self._client is not None:
            self._client.rest_client.close()

    def _send(
        self, verb: str, path: str, query: Query | None, body: Json | None, media: str, read_seconds: float
    ) -> "KubeStream":
        self.budget.enter()
        client = self._client or self._redial(None)
        stream = self._send_once(client, verb, path, query, body, media, read_seconds)
        if stream.status == answers.UNAUTHORIZED:
            stream.read()
            stream = self._send_once(self._redial(client), verb, path, query, body, media, read_seconds)
        if stream.status == answers.THROTTLED:
            self.budget.pause(answers.retry_after(stream.response.headers))
        if not 200 <= stream.status < 300:  # noqa: PLR2004 - what HTTP calls a success
            raise Failure(stream.status, stream.read(), dict(stream.response.headers))
        return stream

    def _send_once(
        self,
        client: ApiClient,
        verb: str,
        path: str,
        query: Query | None,
        body: Json | None,
        media: str,
        read_seconds: float,
    ) -> "KubeStream":
        with self._lock:
            self.requests[f"{verb} {_resource(path)}"] += 1
        where = self._where(path)
        try:
            method, url, headers, *_ = client.param_serialize(
                method=_METHODS[verb],
                resource_path=path,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json, */*", "Content-Type": media},
                auth_settings=["BearerToken"],
            )
            # What we send is plain JSON: the client need not look through all of it for objects of its own.
            timeouts = (self.connect_seconds, read_seconds)
            answer = client.call_api(method, url, headers, body, _request_timeout=timeouts)
        except urllib3.exceptions.ReadTimeoutError as error:
            raise Silent(f"{where}: {_reason(error)}") from error
        except (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise Unreachable(f"{where}: {_reason(error)}") from error
        return KubeStream(answer.response, where)

    def _redial(self, refused: ApiClient | None) -> ApiClient:
        """Return a client with the credentials as they are now; of several threads that were refused one makes it."""
        with self._lock:
            if self._client is None or self._client is refused:
                try:
                    self._client = self._dial()
                except ClusterError as error:
                    raise Unreachable(str(error)) from error
                if refused is not None:
                    refused.rest_client.close()
            return self._client

    def _where(self, path: str) -> str:
        return f"{self._client.configuration.host if self._client else ''}{path}"


class KubeStream:
    """An answer that is read while it arrives."""

    def __init__(self, response: urllib3.BaseHTTPResponse, where: str) -> None:
        """Take over the response; it is closed when it was read to its end or left."""
        self.response = response
        self.status = response.status
        self._where = where

    def wait_for(self, seconds: float) -> None:
        """Wait so long for each further piece."""
        sock = getattr(self.response.connection, "sock", None)
        if sock is not None:
            sock.settimeout(seconds)

    def read(self) -> bytes:
        """Return all of it."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Yield bytes as they come; raise Unreachable where they break off."""
        whole = False
        try:
            yield from self.response.stream(None, decode_content=True)
            whole = True
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            raise Unreachable(f"{self._where} broke off: {_reason(error)}") from error
        finally:
            if whole:
                self.response.release_conn()
            else:
                self.response.close()

    def lines(self) -> Iterator[bytes]:
        """Yield whole lines as they come; what stands behind the last line end is left out."""
        rest = b""
        for chunk in self.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            yield from filter(None, lines)

    def shut(self) -> None:
        """End the stream from another thread: its reader wakes up."""
        with suppress(ValueError, RuntimeError, OSError):
            self.response.shutdown()


def _dial(path: Path, context: str | None) -> ApiClient:
    try:
        if not path.is_file():
            raise ClusterError(f"kubeconfig {path}: there is no such file")
        settings = _Settings()
        _load_file(str(path), context=context, client_configuration=settings, persist_config=False)
    except yaml.YAMLError as error:
        raise ClusterError(f"kubeconfig {path}: not YAML: {_reason(error)}") from error
    except (kube_config.ConfigException, OSError, ValueError) as error:
        raise ClusterError(f"kubeconfig {path}: {_reason(error)}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ClusterError(f"kubeconfig {path}: not shaped as a kubeconfig ({_reason(error)})") from error
    if not settings.host:
        raise ClusterError(f"kubeconfig {path}: the context names no server")
    return ApiClient(settings)


def _dial_from_inside() -> ApiClient:
    settings = _Settings()
    try:
        _load_from_inside(settings)
    except (kube_config.ConfigException, OSError) as error:
        raise ClusterError(f"no kubeconfig named and not inside a Kubernetes pod: {_reason(error)}") from error
    return ApiClient(settings)


class _Settings(Configuration):
    """What a client needs to know; no server until one is named."""

    def __init__(self) -> None:
        super().__init__()
        self._key: str | None = None
        self._look_at = 0.0
        self.host = ""
        # Repeating is the caller's business, who knows what may be repeated and when.
        self.retries = False
        self.connection_pool_maxsize = POOL_SIZE

    def get_api_key_with_prefix(self, identifier: str, alias: str | None = None) -> str | None:
        """Return the token without the line end of the file that it was read from; look whether it is new each second.

        The client would load all its settings anew for each request.
        """
        now = time.monotonic()
        if now >= self._look_at:
            key = super().get_api_key_with_prefix(identifier, alias)
            self._key, self._look_at = key.strip() if key else key, now + LOOK_SECONDS
        return self._key


def _resource(path: str) -> str:
    """Name what a path is about: ``/api/v1/namespaces/a/pods/x`` is ``pods``."""
    parts = path.strip("/").split("/")
    if "namespaces" in parts[:-2]:
        return parts[parts.index("namespaces") + 2]
    return next((part for part in parts if part in _CLUSTER_WIDE), parts[-1])


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
