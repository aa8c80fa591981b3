"""Starts and stops a real Kubernetes control plane: etcd, API server, controllers, scheduler, and kwok as kubelets.

Only the machines are pretended: nodes are objects that a test creates. State is thrown away.
"""

import base64
import json
import os
import secrets
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stack.servers import free_port

STAGES = Path(__file__).resolve().parent / "controlplane" / "stages.yaml"
START_SECONDS = 240.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.03
PARENT_VARIABLE = "TIDEGATE_CONTROLPLANE_PARENT"

_USERS: Mapping[str, Sequence[str]] = {
    "admin": ("system:masters",),
    "system:kube-controller-manager": (),
    "system:kube-scheduler": (),
    "kubelet": ("system:masters",),
    "nobody": (),
}
_END_OF_CERTIFICATE = "-----END CERTIFICATE-----"
_START_OF_CERTIFICATE = "-----BEGIN CERTIFICATE-----"


class ControlPlane:
    """One control plane in a folder of its own; a context manager that starts and stops it."""

    def __init__(self, binary: Path, folder: Path, *, without: tuple[str, ...] = ()) -> None:
        """Prepare; nothing runs yet. ``without``: features that the API server is to lack, as an older one would."""
        self.seconds_to_start = 0.0
        self._without = without
        self._binary = binary
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tokens = {user: secrets.token_urlsafe(24) for user in _USERS}
        self._etcd, self._etcd_peer, self._port, self._kubelet = free_ports(4)

    @property
    def url(self) -> str:
        """Return the API server's address."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def authority(self) -> Path:
        """Return the file with the certificate authority."""
        return self._folder / "pki" / "ca.crt"

    @property
    def certificate(self) -> tuple[Path, Path]:
        """Return a certificate for 127.0.0.1 of that authority, with its key."""
        return self._folder / "pki" / "apiserver.crt", self._folder / "pki" / "apiserver.key"

    def authority_bundle(self) -> str:
        """Return the certificate authority as webhooks name it."""
        return base64.b64encode(self.authority.read_bytes()).decode()

    @property
    def account_key(self) -> Path:
        """Return the file with the key that signs tokens of service accounts."""
        return self._folder / "pki" / "accounts.key"

    @property
    def pod_log(self) -> Path:
        """Return the file that serves as the log of every pod (lines in the container runtime's form)."""
        return self._folder / "pod.log"

    @property
    def kubeconfig(self) -> Path:
        """Return a kubeconfig that may do everything."""
        return self.kubeconfig_of("admin")

    def kubeconfig_of(self, user: str) -> Path:
        """Return the kubeconfig of a user (admin, nobody …)."""
        return self._folder / f"{user.removeprefix('system:')}.kubeconfig"

    def start(self) -> Self:
        """Start every part and wait until pods can be made; stop all again where one fails."""
        begun = time.monotonic()
        try:
            self._write_files()
            self._start_etcd()
            self.start_api_server()
            self._start_controllers()
            self._start_scheduler()
            self._start_kubelets()
            self._until("a default service account", lambda: self._get(_DEFAULT_ACCOUNT) is not None)
        except BaseException:
            self.stop()
            raise
        self.seconds_to_start = time.monotonic() - begun
        return self

    def stop(self) -> None:
        """End what was started, etcd last."""
        for name in reversed(tuple(self._processes)):
            self.kill(name)

    def kill(self, name: str) -> None:
        """End one part at once."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(STOP_SECONDS)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Let one part stand still for as long as the block lasts."""
        process = self._processes[name]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def runs(self, name: str) -> bool:
        """Tell whether a part runs."""
        return name in self._processes and self._processes[name].poll() is None

    def restart_api_server(self) -> None:
        """Kill the API server and start it again on its etcd: from then on every older position is too old (410)."""
        self.kill("kube-apiserver")
        self.start_api_server()

    def compact(self) -> None:
        """Let etcd forget every past revision, as it does every five minutes by itself."""
        newest = self._etcd_says("range", {"key": "AA==", "count_only": True})["header"]["revision"]
        self._etcd_says("compaction", {"revision": newest, "physical": True})

    def start_api_server(self) -> None:
        """Start the API server and wait until it is ready."""
        pki = self._folder / "pki"
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # an advertised loopback address is refused otherwise
            f"--secure-port={self._port}",
            f"--cert-dir={pki}",  # it makes its own authority and certificate there
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={pki / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'accounts.key'}",
            f"--service-account-signing-key-file={pki / 'accounts.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--profiling=false",
            *(f"--feature-gates={feature}=false" for feature in self._without),
        )
        self._until("a certificate", self._split_authority)
        self._until("a ready API server", lambda: self._get("/readyz") == b"ok")

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def _etcd_says(self, verb: str, question: dict[str, Any]) -> dict[str, Any]:
        address = f"http://127.0.0.1:{self._etcd}/v3/kv/{verb}"
        request = urllib.request.Request(address, data=json.dumps(question).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return dict(json.load(answer))

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._etcd_peer}"
        self._spawn(
            "etcd",
            "--name=only",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=only={peer}",
            "--unsafe-no-fsync",  # nobody reads this state again
            "--log-level=warn",
        )

    def _start_controllers(self) -> None:
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig_of('system:kube-controller-manager')}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={self._folder / 'pki' / 'accounts.key'}",
            f"--root-ca-file={self.authority}",
            # Under its own user the node controller may not read leases, and no node loses its first taint.
            "--use-service-account-credentials=true",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            "--concurrent-job-syncs=20",
            "--concurrent-gc-syncs=20",
        )

    def _start_scheduler(self) -> None:
        self._spawn("kube-scheduler", f"--config={self._folder / 'scheduler.json'}", "--secure-port=0")

    def _start_kubelets(self) -> None:
        pki = self._folder / "pki"
        self._spawn(
            "kwok",
            f"--kubeconfig={self.kubeconfig_of('kubelet')}",
            "--manage-all-nodes=false",
            "--manage-nodes-with-label-selector=tidegate.test/kubelet!=down",
            "--node-lease-duration-seconds=40",  # without leases every node is lost after 50 s
            "--node-ip=127.0.0.1",
            f"--node-port={self._kubelet}",
            f"--server-address=127.0.0.1:{self._kubelet}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--config={STAGES}",
            f"--config={self._folder / 'logs.json'}",
        )

    def _spawn(self, name: str, *flags: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [self._binary, name, *flags],
                cwd=self._folder,
                env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _write_files(self) -> None:
        pki = self._folder / "pki"
        pki.mkdir(parents=True, exist_ok=True)
        self.pod_log.write_text("".join(f"2026-01-01T00:00:0{n}.0Z stdout F step {n}\n" for n in range(3)))
        subprocess.run([self._binary, "key", pki / "accounts.key"], check=True)
        rows = (f'{self._tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in _USERS.items())
        _write_secret(pki / "tokens.csv", "".join(rows))
        for user in _USERS:
            _write_secret(self.kubeconfig_of(user), json.dumps(self._kubeconfig(self._tokens[user])))
        (self._folder / "scheduler.json").write_text(json.dumps(self._scheduler_settings()))
        (self._folder / "logs.json").write_text(json.dumps(self._log_settings()))

    def _kubeconfig(self, token: str) -> dict[str, Any]:
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }

    def _scheduler_settings(self) -> dict[str, Any]:
        connection = {"kubeconfig": str(self.kubeconfig_of("system:kube-scheduler")), "qps": 1000, "burst": 2000}
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 2,
            "clientConnection": connection,
        }

    def _log_settings(self) -> dict[str, Any]:
        return {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterLogs",
            "metadata": {"name": "all"},
            "spec": {"logs": [{"logsFile": str(self.pod_log), "follow": False}]},
        }

    def _split_authority(self) -> bool:
        """Cut the authority out of the API server's chain: controllers would not trust a leaf as one."""
        chain = self._folder / "pki" / "apiserver.crt"
        if not chain.exists() or chain.read_text().count(_END_OF_CERTIFICATE) < 2:
            return False
        text = chain.read_text()
        self.authority.write_text(text[text.rindex(_START_OF_CERTIFICATE) :])
        return True

    def _get(self, path: str) -> bytes | None:
        context = ssl.create_default_context(cafile=str(self.authority))
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self._tokens['admin']}"})  # noqa: S310 - our own server
        try:
            with urllib.request.urlopen(request, context=context, timeout=5) as answer:  # noqa: S310
                return bytes(answer.read())
        except OSError:
            return None

    def _until(self, what: str, done: Callable[[], bool]) -> None:
        """Wait for a condition; a part that ends meanwhile is reported with the end of its log."""
        deadline = time.monotonic() + START_SECONDS
        while not done():
            for name, process in self._processes.items():
                if process.poll() is not None:
                    log = (self._folder / f"{name}.log").read_text(errors="replace")
                    raise RuntimeError(f"{name} ended with {process.returncode}:\n{log[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {what} within {START_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)


_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def free_ports(count: int) -> list[int]:
    """Find ports that nobody listens on, all different; no outgoing connection takes one while its server is away."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)
