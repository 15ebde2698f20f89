"""The page of a server: one HTML file, which requests nothing except translations."""

import base64
import hashlib
from html import escape
from importlib import resources

from phrasescore.version import __version__


def render_page(name: str) -> tuple[bytes, dict[str, str]]:
    """Return the page and its headers, which forbid other scripts, styles and requests.

    :param name: the name of the system.
    """
    folder = resources.files(__package__)
    style = resources.files("phrasescore.report") / "page_parts" / "page.css"
    parts = {
        "style": style.read_text("utf-8") + (folder / "page.css").read_text("utf-8"),
        "script": (folder / "page.js").read_text("utf-8"),
        "name": escape(name),
        "version": __version__,
    }
    page = (folder / "page.html").read_text("utf-8")
    for key, text in parts.items():
        page = page.replace(f"{{{{ {key} }}}}", text)
    policy = (
        f"default-src 'none'; script-src '{_hash(parts['script'])}'; "
        f"style-src '{_hash(parts['style'])}'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page.encode(), {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
