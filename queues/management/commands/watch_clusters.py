"""`manage.py watch_clusters`: follow every configured cluster until told to stop."""

import signal
import time
from threading import Event, Thread
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from queues import fleet
from queues.watcher import Follower, retire_others


class Command(BaseCommand):
    """One thread a cluster."""

    # Django's own would load every page: a second in which a cluster is not followed.
    requires_system_checks = ("tidegate",)
    help = "Follow every configured cluster: list, watch, and bring jobs in line. Runs until it is told to stop."

    def handle(self, *_: Any, **__: Any) -> None:  # noqa: ANN401  Django's signature
        """Run until SIGTERM or SIGINT."""
        clusters = fleet.clusters()
        if not clusters:
            raise CommandError("no cluster is configured: set TIDEGATE_CLUSTERS=NAME=KUBECONFIG or TIDEGATE_KUBECONFIG")
        retire_others(clusters, now=timezone.now())
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        threads = [
            Thread(target=Follower(name, cluster, timezone.now).run, args=(stop,), name=name)
            for name, cluster in clusters.items()
        ]
        for thread in threads:
            thread.start()
        self.stdout.write(f"following {', '.join(clusters)}")
        while all(thread.is_alive() for thread in threads):
            time.sleep(0.2)
        ended = [] if stop.is_set() else [thread.name for thread in threads if not thread.is_alive()]
        stop.set()
        for thread in threads:
            thread.join()
        if ended:
            # Whoever runs this starts it again; alone the others would go on, and nobody would follow this one.
            raise CommandError(f"the following of cluster {', '.join(ended)} has ended by itself")
