"""What a platform admin may allow a team's pods beyond what every team's may."""

from enum import StrEnum


class Allowance(StrEnum):
    """One thing that pods may do only where an admin has allowed it to their team."""

    PRIVILEGED = "privileged"
    HOST_NAMESPACES = "host_namespaces"
    HOST_PATH = "host_path"
    HOST_PORTS = "host_ports"
    SERVICE_ACCOUNTS = "service_accounts"
    CAPABILITIES = "capabilities"
    RUNTIME_CLASSES = "runtime_classes"
