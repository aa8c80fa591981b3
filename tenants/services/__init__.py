"""All that a person can change about teams: verbs that take ``by`` (who) and ``now`` and leave an audit entry."""

from tenants.changes import Change, ChangeKind, on_change
from tenants.services.flavors import FlavorChanges, create_flavor, update_flavor
from tenants.services.installation import InstallationChanges, edit_installation
from tenants.services.members import remove_member, set_member
from tenants.services.quotas import KEEP, QuotaEdit, QuotaResult, set_quotas
from tenants.services.teams import TeamChanges, create_team, pause_team, resume_team, update_team
from tenants.services.tokens import NewToken, create_token, revoke_token, rotate_token, used
from tenants.services.users import UserChanges, create_user, update_user

__all__ = [
    "KEEP",
    "Change",
    "ChangeKind",
    "FlavorChanges",
    "InstallationChanges",
    "NewToken",
    "QuotaEdit",
    "QuotaResult",
    "TeamChanges",
    "UserChanges",
    "create_flavor",
    "create_team",
    "create_token",
    "create_user",
    "edit_installation",
    "on_change",
    "pause_team",
    "remove_member",
    "resume_team",
    "revoke_token",
    "rotate_token",
    "set_member",
    "set_quotas",
    "update_flavor",
    "update_team",
    "update_user",
    "used",
]
