"""The text of a PDF is compared, and what is broken or hostile in one is an answer in words."""

import pytest

from observant.errors import UnreadableError
from observant.observer.content import Comparer
from observant.observer.content.normalisation import kind_of, read, reads_pdf
from observant.observer.fetched import Fetched
from observant.observer.pool import pool
from observant.observer.sources.recognition import Recognised
from observant.observer.tasks import BodyTask, Read

pytest.importorskip("pypdf")


def pdf(*pages):
    """A PDF with a line of text on each page, written by hand."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * k} 0 R" for k in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for k, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * k} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    body, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n".encode()
    start = len(body)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    body += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return body + trailer.encode()


def fetched(body, content_type="application/pdf"):
    return Fetched(url="https://a.example/", status=200, body=body, content_type=content_type)


def test_a_pdf_is_read_page_by_page():
    document = read(pdf("The price is 49 EUR", "Second page"), "pdf")
    assert document.lines == ["The price is 49 EUR", "Second page"]
    assert document.addresses == ["page[1]/line[1]", "page[2]/line[1]"]


def test_an_edit_of_one_word_is_a_change_and_another_file_with_the_same_text_is_none():
    comparer = Comparer()
    first = fetched(pdf("The price is 49 EUR"))
    found = comparer.compare(None, first)
    seen = comparer.after(None, first, found)
    again = fetched(pdf("The price is 49 EUR") + b"\n% made anew\n")
    assert comparer.compare(seen, again).outcome == "same"
    changed = comparer.compare(seen, fetched(pdf("The price is 39 EUR")))
    assert (changed.outcome, changed.text) == ("changed", "The price is 39 EUR")


@pytest.mark.parametrize("body", [b"%PDF-1.7\n", b"%PDF-" + b"\xff" * 999])
def test_a_broken_one_is_an_answer_in_words(body):
    with pytest.raises(UnreadableError, match="this PDF"):
        read(body, "pdf")


def test_a_server_that_calls_it_something_else_is_not_believed():
    assert kind_of(fetched(pdf("a"), "application/octet-stream")) == "pdf"
    assert reads_pdf()


@pytest.mark.slow
def test_a_pdf_is_read_in_a_worker_and_recognised_there():
    body = fetched(pdf("Hello from a page"))
    found = pool().call("read", BodyTask(fetched=body), Read, lane="asked")
    assert found.comparison.text == "Hello from a page"
    assert pool().call("recognise", body, Recognised, lane="asked").what == "pdf"
