"""Every address of the product."""

from django.urls import URLPattern, URLResolver, include, path, re_path

from config import docs, health

handler400 = "config.errors.bad_request"
handler403 = "config.errors.forbidden"
handler404 = "config.errors.not_found"
handler500 = "config.errors.broken"

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", health.MetricsView.as_view()),
    path("api/v1/openapi.json", docs.schema, name="openapi"),
    path("api/docs", docs.docs),
    path("api/errors", docs.error_kinds),
    path("api/errors/<str:name>", docs.error_kind),
    path("api/v1/", include("tenants.api.urls")),
    path("api/v1/", include("queues.api.urls")),
    re_path(r"^api(?:/|$)", docs.nothing),
    path("", include("tenants.urls")),
    path("", include("queues.urls")),
]
