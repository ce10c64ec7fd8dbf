"""What mkdocs does to our pages: roles of docstrings become plain names."""

import re
from typing import Any

ROLE = re.compile(r":(?:class|func|mod|meth|attr|data):<code>~?([\w.]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """``:class:`~streamgp.settings.FITC``` reads well in a terminal; on a page only the name does."""
    return ROLE.sub(lambda found: f"<code>{found[1].rsplit('.', 1)[-1]}</code>", html)
