"""What pages and the API show: frozen rows, made by the queries and read by templates and serializers."""
