"""Jobs, queues and the loop that admits them."""
