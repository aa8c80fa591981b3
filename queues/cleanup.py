"""What is deleted when it is past its use."""

from datetime import datetime, timedelta

from queues import changes
from queues.models import Change, Decision, Eviction, ForecastScore, KeptLog
from tenants.models import IdempotentRequest

KEEP_DECISIONS = timedelta(days=7)
KEEP_ANSWERS = timedelta(hours=24)
KEEP_SCORES = timedelta(days=30)
KEEP_LOGS = timedelta(days=30)
KEEP_EVICTIONS = timedelta(days=90)
KEEP_CHANGES = timedelta(hours=1)


def clean_up(now: datetime) -> int:
    """Delete what is past its use; return how many rows went."""
    decisions, _ = Decision.objects.filter(at__lt=now - KEEP_DECISIONS).delete()
    answers, _ = IdempotentRequest.objects.filter(created_at__lt=now - KEEP_ANSWERS).delete()
    scores, _ = ForecastScore.objects.filter(day__lt=(now - KEEP_SCORES).date()).delete()
    logs, _ = KeptLog.objects.filter(kept_at__lt=now - KEEP_LOGS).delete()
    evictions, _ = Eviction.objects.filter(at__lt=now - KEEP_EVICTIONS, due_at=None).delete()
    return decisions + answers + scores + logs + evictions + _forget_changes(now)


def _forget_changes(now: datetime) -> int:
    """Delete notes of transactions that had ended an hour ago: whoever has kept something has seen them since."""
    marks = Change.objects.filter(kind=Change.Kind.MARK, at__lt=now - KEEP_CHANGES)
    horizon = marks.order_by("-of").values_list("of", flat=True).first()
    gone = 0 if horizon is None else Change.objects.filter(xact__lt=horizon).delete()[0]
    ended = changes.horizon()
    # As old as what it tells, so that the next but one takes it away.
    Change.objects.create(xact=ended, kind=Change.Kind.MARK, of=ended, at=now)
    return gone
