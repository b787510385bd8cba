"""Self-contained HTML pages from the templates of this folder; all strings are escaped."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, **values: Any) -> str:
    """Returns the page."""
    environment = Environment(
        loader=PackageLoader("trainmark", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
