"""Draw the pictures of the documentation, each from what observant computes.

    python docs/pictures.py [NAME...]        # all of them, or those named
    python docs/pictures.py --list

Each becomes docs/images/NAME.svg, the same on every run. The drawings are functions in
docs/drawings.

Not from here: `observer` (`observant demo`), `trend` (the command on its page), `drift-*`
(`python -m benchmarks.drift --figures docs/images`), the folder `reproduction`
(`python -m benchmarks.reproduction`), and the pictures of the journeys.
"""

import argparse
import re
from pathlib import Path

import click
from drawings import PICTURES, currency, pages, poisson, pooling, price, rate, seasons

from observant.figures import save

IMAGES = Path(__file__).parent / "images"
DRAWN_IN = (rate, currency, price, poisson, pooling, seasons, pages)
"""The modules that hold drawings."""

TAG = re.compile(r"<[^>]+>")
LONG_NUMBER = re.compile(r"(?<=[\s,(\"A-Z-])\d+\.\d{3,}")


def write(name, folder=IMAGES):
    """Draw one picture and return its file. A hundredth of a pixel is exact enough."""
    file = folder / f"{name}.svg"
    save(PICTURES[name](), str(file))
    file.write_text(TAG.sub(shortened, file.read_text("utf-8")), "utf-8")
    return file


def shortened(tag):
    """Round the coordinates in a tag, and leave alone what stands between tags."""
    return LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}", tag[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a picture; all unless told")
    parser.add_argument("--list", action="store_true", help="list the names")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(PICTURES))
    if unknown:
        parser.error(f"no picture {unknown[0]!r}; --list lists them")
    for name in options.names or PICTURES:
        click.echo(name if options.list else write(name))


if __name__ == "__main__":
    main()
