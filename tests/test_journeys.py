"""The six journeys are walked as their pages tell, on loopback."""

import pytest
from tests.journeys import PAGES, Journey


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem.removeprefix("journey-"))
def test_the_page_can_be_followed(page, tmp_path):
    Journey(page, tmp_path).walk()
