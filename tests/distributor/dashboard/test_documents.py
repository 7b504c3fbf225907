from __future__ import annotations

import re

import pytest

from distributor.dashboard.documents import DOCUMENTS, html


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.name)
def test_a_page_stands_in_the_frame_and_knows_itself(document):
    text = html(document)
    assert "$" not in text
    assert f"<title>{document.title}</title>" in text
    assert f'<script src="{document.script}" type="module">' in text
    (here,) = re.findall(r'<a href="([^"]*)" aria-current="page">([^<]*)</a>', text)
    assert here == ("." if document.name == "Overview" else document.file, document.name)
    assert all(f">{other.name}</a>" in text for other in DOCUMENTS)
    assert text.count("<main ") == text.count("</main>") == 1
    identities = re.findall(r' id="(.*?)"', text)
    assert len(identities) == len(set(identities))
