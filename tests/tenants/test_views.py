"""One's own tokens: made, shown once, listed, revoked."""

import re
from typing import TYPE_CHECKING

from django.test import Client

from tenants.models import ApiToken
from tenants.services.tokens import digest

if TYPE_CHECKING:
    from tests.tenants.conftest import Site

FIELDS = {"name": "airflow", "scopes": ["jobs:read", "jobs:write"], "team": "", "days": "90"}


def browser(site: "Site") -> Client:
    client = Client()
    client.force_login(site.member)
    return client


def test_a_new_token_is_shown_once_and_only_its_hash_is_kept(site: "Site") -> None:
    client = browser(site)

    made = client.post("/me/tokens", FIELDS).content.decode()
    later = client.get("/me/tokens").content.decode()

    secret = re.search(r'<code id="secret">(tg_[^<]+)</code>', made)
    assert secret is not None
    token = ApiToken.objects.get()
    assert token.digest == digest(secret[1])
    assert secret[1] not in later
    assert token.prefix in later
    assert token.expires_at is not None


def test_a_token_without_a_name_is_refused_with_what_was_chosen_kept(site: "Site") -> None:
    response = browser(site).post("/me/tokens", {**FIELDS, "name": " ", "days": "365"})

    assert response.status_code == 422
    assert ApiToken.objects.count() == 0
    assert '<option value="365" selected>' in response.content.decode()


def test_the_page_with_a_secret_is_kept_by_no_cache(site: "Site") -> None:
    response = browser(site).post("/me/tokens", FIELDS)

    assert "no-store" in response["Cache-Control"]


def test_a_revoked_token_leaves_the_list(site: "Site") -> None:
    client = browser(site)
    client.post("/me/tokens", FIELDS)
    token = ApiToken.objects.get()

    page = client.post(f"/me/tokens/{token.id}/revoke", follow=True).content.decode()

    token.refresh_from_db()
    assert token.revoked_at is not None
    assert "Revoked." in page
    assert token.prefix not in page


def test_nobody_revokes_the_token_of_another(site: "Site") -> None:
    browser(site).post("/me/tokens", FIELDS)
    token = ApiToken.objects.get()
    other = Client()
    other.force_login(site.lead)

    response = other.post(f"/me/tokens/{token.id}/revoke")

    token.refresh_from_db()
    assert response.status_code == 404
    assert token.revoked_at is None
