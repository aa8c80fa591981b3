"""All that is said to Kubernetes."""
