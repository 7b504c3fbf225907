"""The pages as documents: what each shows, in the frame that all have."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from string import Template

PRODUCT = "Dafka distributor"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """One page.

    Attributes:
        file: What it shows, in `parts/`; its address, but for the first.
        name: In the list of pages.
        heading: Above it.
        script: What brings it to life.
        shows: What can be skipped to.
        meanwhile: What is said until that is there.
        command: What shows the same in a terminal.
    """

    file: str
    name: str
    heading: str
    script: str
    shows: str
    meanwhile: str
    command: str

    @property
    def title(self) -> str:
        """Of the browser's window."""
        return self.heading if self.heading == PRODUCT else f"{self.heading} · {PRODUCT}"


DOCUMENTS = (
    WebPage(
        file="index.html",
        name="Overview",
        heading=PRODUCT,
        script="page.js",
        shows="tree",
        meanwhile="Connecting",
        command="distributor status",
    ),
    WebPage(
        file="topics.html",
        name="Topics",
        heading="Topics",
        script="topics.js",
        shows="topics",
        meanwhile="Asking all clusters",
        command="dafka topics",
    ),
    WebPage(
        file="groups.html",
        name="Groups",
        heading="Groups",
        script="groups.js",
        shows="groups",
        meanwhile="Asking all clusters",
        command="dafka groups",
    ),
)


def html(document: WebPage) -> str:
    """Return a page as a browser reads it."""
    frame = Template(_read("frame.html"))
    return frame.substitute(
        title=document.title,
        script=document.script,
        shows=document.shows,
        heading=document.heading,
        meanwhile=document.meanwhile,
        links=" ".join(_link(one, here=one is document) for one in DOCUMENTS),
        command=document.command,
        main=_read(document.file),
    )


def _link(document: WebPage, *, here: bool) -> str:
    current = ' aria-current="page"' if here else ""
    address = "." if document is DOCUMENTS[0] else document.file
    return f'<a href="{address}"{current}>{document.name}</a>'


def _read(file: str) -> str:
    return files(__package__).joinpath("parts", file).read_text(encoding="utf-8")
