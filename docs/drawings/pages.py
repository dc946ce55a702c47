"""Pictures of other pages, drawn from the examples on the page itself: text and picture agree."""

from contextlib import chdir, redirect_stdout
from doctest import DocTestParser
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from drawings import picture
from observant import estimate_rates
from observant.figures import rate_figure, season_figure, visit_times_figure
from observant.testing import synthetic_visits

DOCS = Path(__file__).parents[1]


@picture("rates")
def rates():
    return rate_figure(estimate_rates(synthetic_visits()[0], "bias-reduced"))


@picture("season")
def season():
    return season_figure(made_on_page("seasons", "season")["found"].season)


@picture("visit-times")
def visit_times():
    return visit_times_figure(made_on_page("seasons", "visit-times")["plan"])


@picture("update-intervals")
def update_intervals():
    return made_on_page("update-intervals", "update-intervals")["found"].plot()


def made_on_page(page, image):
    """What the examples of a page have made by the place where a picture stands."""
    text = (DOCS / f"{page}.md").read_text("utf-8").partition(f"images/{image}.svg")[0]
    names = {}
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()):
        for example in DocTestParser().get_examples(text):
            exec(example.source, names)  # noqa: S102
    return names
