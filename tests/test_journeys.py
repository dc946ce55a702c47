"""The six journeys are walked as their pages tell, on loopback."""

import pytest
from tests.journeys import PAGES, Journey

from observant.observer import sources


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem.removeprefix("journey-"))
def test_the_page_can_be_followed(page, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_ADDED", {})  # the kinds of a page are gone after it
    try:
        Journey(page, tmp_path).walk()
    finally:
        monkeypatch.undo()
        sources.kinds.cache_clear()


# -- the walk itself ------------------------------------------------------------------------------


def walk(folder, text):
    page = folder / "journey.md"
    page.write_text(text, "utf-8")
    Journey(page, folder).walk()


def test_a_walk_writes_runs_exports_and_kills(tmp_path):
    walk(
        tmp_path,
        """
<!-- ports: 8000 -->

```text title="deep/note.txt"
port 8000
```

```console
$ cat deep/note.txt; grep -c '80''00' deep/note.txt || true
port 8000
0
$ export WORD=$(echo word)
$ echo "$WORD and \\
$WORD"
word and word
$ bash -c 'echo ready; exec sleep 60' &
ready
$ kill %1
$ ls nowhere || echo "Error: gone" && false
...
Error: gone
```

```python
>>> import os
>>> os.environ["WORD"]
'word'

```
""",
    )


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ echo this\nthat\n```\n",
        "```console\n$ false\n```\n",
        "```console\n$ true\nError: none\n```\n",
        "```console\n$ echo short &\nlong\n```\n",
        "```python\n>>> 1 + 1\n3\n\n```\n",
        "![a picture](images/journey-nothing.png)\n",
    ],
)
def test_a_page_that_is_not_true_fails(text, tmp_path):
    with pytest.raises(AssertionError):
        walk(tmp_path, text)


def test_a_walk_is_skipped_where_something_is_missing(tmp_path):
    with pytest.raises(pytest.skip.Exception, match="no nosuchprogram"):
        walk(tmp_path, "<!-- needs: bash pytest nosuchprogram -->\n```console\n$ false\n```\n")
