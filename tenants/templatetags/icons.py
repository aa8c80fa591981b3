"""Icons of the pages."""

from functools import cache

from django import template
from lucide.templatetags.lucide import lucide

register = template.Library()


@register.simple_tag
def icon(name: str, label: str = "") -> str:
    """Return a Lucide icon as SVG, as large as its text: decoration, or with a ``label`` an image of that name."""
    return lucide(name, size=None, role="img", aria_label=label) if label else _decoration(name)


# A list shows the same few icons on each of its lines.
@cache
def _decoration(name: str) -> str:
    return lucide(name, size=None, aria_hidden="true")
