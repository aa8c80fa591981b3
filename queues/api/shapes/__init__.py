"""What bodies may say and what answers look like: plain serializers."""
