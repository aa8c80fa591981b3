"""What is deleted when it is past its use."""

from datetime import datetime, timedelta

from queues.models import Decision, Eviction, ForecastScore, KeptLog
from tenants.models import IdempotentRequest

KEEP_DECISIONS = timedelta(days=7)
KEEP_ANSWERS = timedelta(hours=24)
KEEP_SCORES = timedelta(days=30)
KEEP_LOGS = timedelta(days=30)
KEEP_EVICTIONS = timedelta(days=90)


def clean_up(now: datetime) -> int:
    """Delete old decisions, evictions, scores, logs and answers kept for repeated requests; return how many went."""
    decisions, _ = Decision.objects.filter(at__lt=now - KEEP_DECISIONS).delete()
    answers, _ = IdempotentRequest.objects.filter(created_at__lt=now - KEEP_ANSWERS).delete()
    scores, _ = ForecastScore.objects.filter(day__lt=(now - KEEP_SCORES).date()).delete()
    logs, _ = KeptLog.objects.filter(kept_at__lt=now - KEEP_LOGS).delete()
    evictions, _ = Eviction.objects.filter(at__lt=now - KEEP_EVICTIONS, due_at=None).delete()
    return decisions + answers + scores + logs + evictions
