"""The Kubernetes namespaces of teams."""

from django.conf import settings

from clusters import names


def namespace_of(team: str) -> str:
    """Return the namespace in which a team's pods run."""
    return names.dns_label(f"{settings.TIDEGATE_NAMESPACE_PREFIX}{team}")
