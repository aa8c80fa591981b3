"""Teams: what leads and admins change on a team's page, and what is in their way."""

from typing import Any

import pytest

from tenants.models import Membership, Quota
from tests.queues.lab import Lab
from tests.queues.test_views_pages import browser


def quota(lab: Lab) -> Quota:
    return Quota.objects.get(team=lab.nlp, flavor=lab.h100)


def post(who: Any, what: str, **fields: str) -> str:  # noqa: ANN401  an Actor
    return str(browser(who).post(f"/teams/nlp/{what}", fields, follow=True).content.decode())


def test_an_admin_sets_a_quota_in_the_table(lab: Lab) -> None:
    text = post(lab.root, "quota", flavor="h100", guaranteed="12", borrow_limit="", lend_limit="0", version="1")

    row = quota(lab)
    assert (row.guaranteed, row.borrow_limit, row.lend_limit, row.version) == (12, None, 0, 2)
    assert "h100 of nlp is set." in text


def test_an_edit_of_an_older_version_changes_nothing_and_shows_what_is_there(lab: Lab) -> None:
    post(lab.root, "quota", flavor="h100", guaranteed="12", version="1")

    text = post(lab.root, "quota", flavor="h100", guaranteed="4", version="1")

    assert quota(lab).guaranteed == 12
    assert "Look at the values below, then change them again." in text
    assert ('name="guaranteed" value="4"' in text, "now 12" in text) == (True, True)


def test_a_sum_above_what_is_installed_is_refused_with_the_numbers(lab: Lab) -> None:
    text = post(lab.root, "quota", flavor="h100", guaranteed="30", version="1")

    assert "Nothing was changed" in text
    assert "32" in text
    assert 'name="guaranteed" value="30"' in text
    assert quota(lab).guaranteed == 16


@pytest.mark.parametrize("given", ["", "-1", "8.5", "many", "9" * 12, "\u0663"])
def test_a_guarantee_is_a_whole_number_and_not_empty(lab: Lab, given: str) -> None:
    text = post(lab.root, "quota", flavor="h100", guaranteed=given, borrow_limit="5", version="1")

    # All that was typed is still there, beside what holds; another GPU type's line is as it was.
    assert f'name="guaranteed" value="{given}"' in text
    assert ('name="borrow_limit" value="5"' in text, text.count("now 16"), text.count("now no limit")) == (True, 1, 1)
    assert "guaranteed is a whole number from 0 up" in text
    assert "or empty for no limit" not in text
    assert quota(lab).guaranteed == 16


def test_a_limit_is_a_whole_number_or_empty(lab: Lab) -> None:
    text = post(lab.root, "quota", flavor="h100", guaranteed="16", borrow_limit="many", version="1")
    looked = post(lab.root, "quota/preview", flavor="h100", guaranteed="16", lend_limit="<b>", version="1")

    assert ('name="borrow_limit" value="many"' in text, "now no limit" in text) == (True, True)
    assert 'name="lend_limit" value="&lt;b&gt;"' in looked
    assert "borrow limit is a whole number from 0 up, or empty for no limit; not" in text


def test_a_lead_sees_quotas_and_cannot_change_them(lab: Lab) -> None:
    page = browser(lab.lea).get("/teams/nlp").content.decode()
    post(lab.lea, "quota", flavor="h100", guaranteed="20", version="1")

    assert 'name="guaranteed"' not in page
    assert quota(lab).guaranteed == 16


def test_a_lead_adds_a_member_and_changes_and_removes_one(lab: Lab) -> None:
    added = post(lab.lea, "members", user="carl", role="viewer")
    assert Membership.objects.get(user=lab.carl.user, team=lab.nlp).role == "viewer"
    post(lab.lea, "members", user="carl", role="member")
    assert Membership.objects.get(user=lab.carl.user, team=lab.nlp).role == "member"
    removed = post(lab.lea, "members", user="carl", role="remove")

    assert "carl is viewer of nlp." in added
    assert "carl is no longer in nlp." in removed
    assert not Membership.objects.filter(user=lab.carl.user, team=lab.nlp).exists()


def test_a_member_who_is_not_there_leaves_what_was_typed(lab: Lab) -> None:
    text = post(lab.lea, "members", user="nobody-<i>", role="lead")

    assert 'value="nobody-&lt;i&gt;"' in text
    assert '<option value="lead" selected>lead</option>' in text


def test_a_member_sees_no_edit_of_members(lab: Lab) -> None:
    assert 'id="add-user"' not in browser(lab.ann).get("/teams/nlp").content.decode()


def test_the_tree_lists_a_department_before_its_teams(lab: Lab) -> None:
    text = browser(lab.root).get("/teams?part=tree").content.decode()

    places = [text.index(f'href="/teams/{name}"') for name in ("ai", "nlp", "cv", "life", "bio")]
    assert places == sorted(places)
