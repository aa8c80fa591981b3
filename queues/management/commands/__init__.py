"""Management commands of queues."""
