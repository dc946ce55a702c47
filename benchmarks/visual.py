"""Which library tells a change of how a page looks from anti-aliasing and a small shift?

    python -m benchmarks.visual [--size 1280x900]

Chromium takes pictures of one page: as it is, moved by up to two pixels, drawn with another
anti-aliasing, and with real edits down to a digit in small grey print. Each way to compare gives a
number for each picture. It is right about a picture if a limit puts it on its side; the limit is
the one that suits this way best, so nobody loses by a setting. Ways whose library is not installed
are left out (`pip install pixelmatch scikit-image opencv-python-headless`).
"""

import argparse
import io
import json
import time

import numpy as np
from PIL import Image

from observant.observer.browser import BrowserSettings
from observant.observer.content.pictures import difference_of_pictures

__all__ = ["PAGE", "SEEN", "USUAL", "main"]

TEXT = "The quick brown fox jumps over the lazy dog and reads 1,234 pages about lamps. " * 4
PAGE = """<style>body {{ font: {size}px sans-serif; margin: 24px }} {css}
.card {{ border: 1px solid #ccc; padding: 12px; width: 400px }}</style><h1>Lamps</h1><p>{text}</p>
<div class=card><b>Desk lamp</b> <span>{price}</span> EUR <p style="color: #999">{stock}</p>
<button>Buy</button> <svg width=60 height=60><circle cx=30 cy=30 r=25 fill="{colour}"/></svg></div>
<p id=clock>{clock}</p><p>{text}</p>"""
USUAL = {
    "size": 16, "css": "", "text": TEXT, "price": "49.00", "stock": "In stock, 8 left",
    "colour": "#36c", "clock": "12:00",
}  # fmt: skip
SEEN = {
    "same": [
        {"css": "body { position: relative; top: 2px; left: -2px }"},
        {"css": "p { position: relative; top: 1px }"},
        {"css": "body { transform: translate(0.5px, 0.5px) }"},
        {"css": "body { text-rendering: geometricPrecision }"},
    ],
    "changed": [
        {"price": "48.00"},
        {"stock": "In stock, 3 left"},
        {"css": "button { position: relative; left: 8px }"},
        {"colour": "#c33"},
    ],
}
"""How a page may differ from the usual one, and what is to be found then."""
MORE = {
    "same": [
        {},
        {"css": "body { position: relative; left: 1px }"},
        {"css": "p { position: relative; left: 0.33px }"},
        {"css": "body { transform: rotate(0.02deg) }"},
        {"css": "svg { transform: scale(1.01) }"},
    ],
    "changed": [
        {"price": "55.00"},
        {"price": "49,00"},
        {"price": "49.80"},
        {"stock": "In stock, 6 left"},
        {"stock": "In stock, 7 left"},
        {"css": "button { position: relative; left: 4px }"},
        {"css": "span { text-decoration: line-through }"},
        {"text": TEXT.replace("lazy", "busy", 1)},
    ],
}


def taken(width, height):
    """The usual picture of two sizes of print, and the others with what is to be found."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BrowserSettings().program() or None, chromium_sandbox=False
        )
        page = browser.new_page(viewport={"width": width, "height": height})

        def shot(**more):
            page.set_content(PAGE.format(**USUAL | more))
            return page.screenshot(type="jpeg", quality=90)

        found = []
        for size in (16, 13):
            usual = shot(size=size)
            found += [
                (usual, shot(**more | {"size": size}), outcome == "changed")
                for outcome in SEEN
                for more in (*SEEN[outcome], *MORE[outcome])
            ]
        browser.close()
    return found


def array(picture):
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def ours(a, b):
    return difference_of_pictures(a, b).share


def plain(a, b):
    return float((np.abs(array(a).astype(int) - array(b)).max(axis=2) > 25).mean())


def with_pixelmatch(a, b):
    from pixelmatch.contrib.PIL import pixelmatch

    return pixelmatch(Image.open(io.BytesIO(a)), Image.open(io.BytesIO(b)), includeAA=False)


def with_ssim(a, b):
    from skimage.metrics import structural_similarity

    one, other = (np.asarray(Image.open(io.BytesIO(p)).convert("L")) for p in (a, b))
    return 1 - structural_similarity(one, other, full=True)[1].min()


def with_opencv(a, b):
    import cv2

    one, other = (cv2.GaussianBlur(array(p), (5, 5), 0) for p in (a, b))
    rough = cv2.threshold(cv2.absdiff(one, other).max(axis=2), 40, 255, cv2.THRESH_BINARY)[1]
    return float(cv2.morphologyEx(rough, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)).mean())


WAYS = {
    "observant (Pillow, NumPy)": ours,
    "pixels that differ (NumPy)": plain,
    "pixelmatch": with_pixelmatch,
    "SSIM (scikit-image)": with_ssim,
    "blur, difference, opening (OpenCV)": with_opencv,
}


def judged(numbers, changed):
    """False changes and missed ones, with the limit that makes fewest mistakes."""
    least = None
    for limit in sorted({-1.0, *numbers}):
        false = sum(n > limit and not c for n, c in zip(numbers, changed, strict=True))
        missed = sum(n <= limit and c for n, c in zip(numbers, changed, strict=True))
        if least is None or false + missed < sum(least):
            least = int(false), int(missed)
    return least


def measure(width=1280, height=900):
    pictures = taken(width, height)
    changed = [one[2] for one in pictures]
    found = {"pictures": len(pictures), "changed": sum(changed)}
    for name, way in WAYS.items():
        try:
            way(*pictures[0][:2])
        except ImportError as error:
            found[name] = f"not measured: {error}"
            continue
        began = time.process_time()
        numbers = [way(a, b) for a, b, _ in pictures]
        seconds = (time.process_time() - began) / len(pictures)
        false, missed = judged(numbers, changed)
        found[name] = {
            "false changes": false,
            "changes missed": missed,
            "seconds of processor time": round(seconds, 3),
        }
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", default="1280x900")
    width, height = map(int, parser.parse_args(argv).size.split("x"))
    print(json.dumps(measure(width, height), indent=2))


if __name__ == "__main__":
    main()
