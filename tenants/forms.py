"""The form of a new token: its shape only, its rules are the service's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms

from tenants.permissions import Scope

if TYPE_CHECKING:
    from datetime import datetime

SCOPES = [
    (Scope.JOBS_READ, "read jobs"),
    (Scope.JOBS_WRITE, "submit and change jobs"),
    (Scope.QUOTA_READ, "read quotas"),
    (Scope.QUOTA_WRITE, "change quotas, where you may"),
    (Scope.AUDIT_READ, "read the audit, where you may"),
    (Scope.ADMIN, "everything you may do, more tokens too"),
]
LIVES = [("30", "30 days"), ("90", "90 days"), ("365", "a year"), ("", "no end")]


class TokenForm(forms.Form):
    """Name, scopes, team and life of a token."""

    name = forms.CharField(
        max_length=100, widget=forms.TextInput(attrs={"placeholder": "airflow in production", "autocomplete": "off"})
    )
    scopes = forms.MultipleChoiceField(
        choices=SCOPES, widget=forms.CheckboxSelectMultiple, initial=[Scope.JOBS_READ, Scope.JOBS_WRITE]
    )
    team = forms.ChoiceField(required=False, label="Only for team")
    days = forms.ChoiceField(choices=LIVES, required=False, label="Ends after", initial="90")

    def __init__(self, *args: Any, teams: list[str], **kwargs: Any) -> None:  # noqa: ANN401  Django's
        """Offer the teams that the person sees."""
        super().__init__(*args, **kwargs)
        choices = [("", "all my teams"), *((name, name) for name in teams)]
        self.fields["team"].choices = choices  # type: ignore[attr-defined]

    def ends(self, now: datetime) -> datetime | None:
        """Return when the token ends, or None."""
        days = self.cleaned_data["days"]
        return now + timedelta(days=int(days)) if days else None
