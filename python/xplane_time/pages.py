"""What has a page: as text, as a file, in a browser."""

from __future__ import annotations

import pathlib
import tempfile
import webbrowser
from typing import overload

from xplane_time.files import HTML, PathText, new_file


class HasPage:
    """As of `-o report.html`, which needs nothing else."""

    __slots__ = ()

    def _page(self) -> str:
        raise NotImplementedError

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: PathText) -> None: ...
    def to_html(self, path: PathText | None = None) -> str | None:
        """The page of `-o report.html`, which needs nothing else; or writes it, in the place of an
        earlier page. With a timeline while its trace is open. Errors: ArgumentError, OSError."""
        page = self._page()
        if path is None:
            return page
        with new_file(path, HTML) as file:
            file.write_text(page, "utf-8")
        return None

    def show(self) -> None:
        """Opens the page in a browser, from a temporary file. Without one, prints the path."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="xplane-time-",
                                         suffix=".html", delete=False) as file:
            file.write(self.to_html())
        if not webbrowser.open(pathlib.Path(file.name).as_uri()):
            print(file.name)
