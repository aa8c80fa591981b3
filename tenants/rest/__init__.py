"""The conventions of the REST API: who asks, what is read, how answers and errors look. Used by every `api` package."""
