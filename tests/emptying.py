"""How the database is emptied behind a test that committed: by deleting what is there, a few rows in a few tables.

Django truncates every table, each of which gives it and its indexes new files, and then notes all models anew.
"""

from django.db import connection

# What the models are called: no test changes it.
KEPT = frozenset({"auth_permission", "django_content_type"})
# A table whose new file tells whoever remembers an older snapshot that everything is to be read again.
NOTES = "queues_change"

_EMPTY = """
DO $$
DECLARE one regclass; tables regclass[] := %(tables)s::regclass[];
BEGIN
    LOCK TABLE {locked};
    FOREACH one IN ARRAY tables LOOP
        IF pg_relation_size(one) > 1000000 OR one = %(notes)s::regclass THEN
            EXECUTE format('TRUNCATE %%s CASCADE', one);
        END IF;
    END LOOP;
    FOREACH one IN ARRAY tables || %(notes)s::regclass LOOP
        IF pg_relation_size(one) > 0 THEN
            EXECUTE format('DELETE FROM %%s', one);
        END IF;
    END LOOP;
END $$
"""


def empty() -> None:
    """Delete all rows; whoever is at something with them is waited for."""
    names = set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - KEPT
    locked = ", ".join(connection.ops.quote_name(name) for name in sorted(names))
    with connection.cursor() as cursor:
        cursor.execute(_EMPTY.format(locked=locked), {"tables": sorted(names), "notes": NOTES})
