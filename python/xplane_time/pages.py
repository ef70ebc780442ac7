"""Results that can be shown as an HTML page: as text, as a file, or in a browser."""

from __future__ import annotations

import pathlib
import tempfile
import webbrowser
from typing import overload

from xplane_time.files import HTML, PathText, new_file


class HasPage:
    """A result with an HTML page like that of `-o report.html`, which needs no other files."""

    __slots__ = ()

    def _page(self) -> str:
        raise NotImplementedError

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: PathText) -> None: ...
    def to_html(self, path: PathText | None = None) -> str | None:
        """Returns the HTML page of `-o report.html`, or writes it to `path`, where it replaces an
        earlier page. The page has a timeline only if the trace is still open. Errors:
        ArgumentError, OSError."""
        page = self._page()
        if path is None:
            return page
        with new_file(path, HTML) as file:
            file.write_text(page, "utf-8")
        return None

    def show(self) -> None:
        """Opens the page in a browser, from a temporary file. If there is no browser, prints its
        path.
        """
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="xplane-time-",
                                         suffix=".html", delete=False) as file:
            file.write(self.to_html())
        if not webbrowser.open(pathlib.Path(file.name).as_uri()):
            print(file.name)
