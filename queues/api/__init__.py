"""REST endpoints of jobs, queues and decisions."""
