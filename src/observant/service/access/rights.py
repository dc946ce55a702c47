"""Who may do what: every operation of the service with what it needs, for API and pages alike.

A route names its operation; what that needs stands here and nowhere else. The few rules that depend
on who asks for what (one's own tokens, one's own password) are those of `Access`.
"""

from __future__ import annotations

from typing import Any

from observant.store.accounts import SCOPES

NEEDS = ("nothing", *SCOPES)
"""Each includes those before it."""

_OPERATIONS = {
    "nothing": """
        health sign_in static websub_callback indexnow
    """,
    "read": """
        overview hours hosts tags observers events visits visit_log figure feed metrics status
        list_sources source source_visits source_signals signals websub source_versions snapshot
        diff members pictures picture picture_diff
        plan rivals population subscriptions subscription deliveries settings export
        reference session sign_out change_password tokens create_token revoke_token
    """,
    "write": """
        add_source import_sources change_sources update_source remove_source pause_source
        resume_source check_source preview_source recognise_sources page_picture try_steps
        signal mark_seen
        subscribe update_subscription unsubscribe retry_deliveries test_subscription
        change_settings import_document
    """,
    "admin": """
        accounts add_account update_account remove_account
        mail set_mail test_mail
    """,
}
RULES = {name: need for need, names in _OPERATIONS.items() for name in names.split()}
"""What each operation needs."""


def rule(operation: str, **more: Any) -> dict[str, Any]:
    """What a route says of itself: its operation and what that needs, for the guard."""
    return {"operation": operation, "needs": RULES[operation], **more}
