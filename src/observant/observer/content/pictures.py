"""Two pictures of a page: where they differ by more than anti-aliasing and a small shift.

Both are smoothed a little. Where they then differ, each point of the new picture is looked for in
the old one, up to some pixels away and in half steps, by what is around it; what is found nowhere
differs. Pillow reads the pictures and NumPy compares them, since pixelmatch, SSIM of scikit-image
and OpenCV take a shift of a pixel for a change, or miss edits: of 42 pictures this way is wrong
about 2, and each of those about 16 or more (`python -m benchmarks.visual`). It takes 0.24 s of
processor time for two pictures of 1280 × 900, and Pillow is the lightest of them to install.
"""

from __future__ import annotations

import io
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from observant.arrays import Flags, Integers

_LARGEST = 1280 * 6000
"""Pixels of a picture; more are not unpacked."""
_TILE = 16
"""What differs is told in squares of so many pixels."""
_AROUND = 3
"""Pixels around a point by which it is recognised."""
_FAINT, _RELATIVE = 16, 0.4
"""A point differs by more than this of 255, and by more than this share of the contrast there."""
_COLOUR = 20
_CHANCE = 0.25
"""If so many squares differ after whole steps, half steps are not tried: it is another page."""
_AT_A_TIME = 500
_MOST_BOXES = 50
_LARGEST_KEPT = 8 << 20
"""Bytes of an image that is kept with its version; of a larger one, size and digest are."""
_TYPES = {b"\xff\xd8": "jpeg", b"\x89PNG\r\n\x1a\n": "png", b"GIF87a": "gif", b"GIF89a": "gif"}
"""What cannot act in a browser that is told its type, by how it begins; never SVG."""


class PictureDifference(msgspec.Struct, frozen=True):
    """Where two pictures differ."""

    share: float
    """Of the area that is not masked, from 0 to 1."""
    boxes: tuple[tuple[int, int, int, int], ...] = ()
    """Left, top, width and height of each part that differs, the largest first."""
    width: int = 0
    height: int = 0


def image_type(content: bytes) -> str:
    """The media type of an image by its first bytes, whatever its server says; "" for others.

    >>> image_type(b"GIF89a..."), image_type(b"<svg onload='alert(1)'>")
    ('image/gif', '')
    """
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next(
        (f"image/{name}" for start, name in _TYPES.items() if content.startswith(start)), ""
    )


def kept_image(body: bytes) -> bytes | None:
    """What is kept of an answer as the picture of its version: the answer, if it is an image."""
    return body if image_type(body) and len(body) <= _LARGEST_KEPT else None


def parse_box(text: str) -> tuple[int, int, int, int] | None:
    """A box as people write it, "x y width height" in pixels; None for anything else.

    >>> parse_box("0 40 1280 60"), parse_box("#advert")
    ((0, 40, 1280, 60), None)
    """
    words = text.replace(",", " ").split()
    if len(words) != 4 or not all(word.isdecimal() and len(word) <= 5 for word in words):
        return None
    x, y, width, height = map(int, words)
    if not width or not height:
        raise InputError(f"masks: the box {text!r} is empty")
    return x, y, width, height


def difference_of_pictures(
    old: bytes, new: bytes, masks: Iterable[Sequence[int]] = (), tolerance: int = 2
) -> PictureDifference:
    """Where `new` differs from `old`, both images of a known type; `tolerance` is in pixels."""
    import numpy as np

    before, after = _smoothed(old, masks), _smoothed(new, masks)
    narrow, width = sorted((before.shape[1], after.shape[1]))
    lower, height = sorted((before.shape[0], after.shape[0]))
    before, after = before[:lower, :narrow], after[:lower, :narrow]
    marked = np.zeros((-(-height // _TILE), -(-width // _TILE)), bool)
    if height - lower > tolerance:
        marked[lower // _TILE :] = True
    if width - narrow > tolerance:
        marked[:, narrow // _TILE :] = True
    grey = _apart(before[..., 0], after[..., 0]) > _FAINT
    tiles = np.argwhere(_in_tiles(grey, np.zeros_like(marked)))
    for half in (False, True):
        if half and len(tiles) > _CHANCE * marked.size:
            break
        some = np.split(tiles, range(_AT_A_TIME, len(tiles), _AT_A_TIME))
        tiles = np.concatenate([t[_differing(before, after, t, tolerance, half)] for t in some])
    marked[tuple(tiles.T)] = True
    coloured = _recoloured(before[..., 1:], after[..., 1:])
    marked |= _in_tiles(coloured.repeat(4, 0).repeat(4, 1)[:lower, :narrow], np.zeros_like(marked))
    for x, y, w, h in masks:
        marked[-(-y // _TILE) : (y + h) // _TILE, -(-x // _TILE) : (x + w) // _TILE] = False
    hidden = sum(w * h for _, _, w, h in masks) / max(width * height, 1)
    share = float(marked.mean()) / max(1.0 - min(hidden, 0.99), 0.01)
    return PictureDifference(min(share, 1.0), _boxes(marked, width, height), width, height)


def _smoothed(picture: bytes, masks: Iterable[Sequence[int]]) -> NDArray[np.uint8]:
    """Brightness and both colours of each point, with a bit of what is beside it."""
    import numpy as np

    try:
        from PIL import Image, ImageFilter
    except ImportError:
        raise UnreadableError(
            "pictures are compared with Pillow: pip install 'observant[browser]'"
        ) from None
    plain = None
    try:
        with Image.open(io.BytesIO(picture), formats=("JPEG", "PNG", "GIF", "WEBP")) as image:
            if image.width * image.height <= _LARGEST:
                plain = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UnreadableError(f"the picture cannot be read: {error}") from None
    if plain is None:
        raise UnreadableError(f"the picture has more than {_LARGEST:,} pixels")
    for x, y, width, height in masks:
        plain.paste((0, 0, 0), (x, y, x + width, y + height))
    return np.asarray(plain.filter(ImageFilter.BoxBlur(1)).convert("YCbCr"))


def _apart(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.uint8]:
    import numpy as np

    apart: NDArray[np.uint8] = np.maximum(a, b)
    apart -= np.minimum(a, b)
    return apart


def _in_tiles(points: Flags, tiles: Flags) -> Flags:
    """Which tiles have such a point."""
    import numpy as np

    rows, columns = np.nonzero(points)
    tiles[rows // _TILE, columns // _TILE] = True
    return tiles


def _differing(
    before: NDArray[np.uint8], after: NDArray[np.uint8], tiles: Integers, tolerance: int, half: bool
) -> Flags:
    """In which of these tiles the brightness differs, wherever it is looked for."""
    import numpy as np

    size, reach = _TILE + 2 * _AROUND, tolerance + 1
    new = _cut(after[..., 0], tiles, _AROUND)
    old = _cut(before[..., 0], tiles, _AROUND + reach)
    there = old[:, reach : reach + size, reach : reach + size]
    highest = np.maximum(_window(new, np.maximum), _window(there, np.maximum))
    lowest = np.minimum(_window(new, np.minimum), _window(there, np.minimum))
    limit = np.maximum(_FAINT, _RELATIVE * (highest - lowest).astype(np.float32))
    steps = range(-2 * tolerance, 2 * tolerance + 1, 1 if half else 2)
    least = np.full(limit.shape, np.iinfo(np.uint16).max, np.uint16)
    left = np.full(limit.shape, 255, np.uint8)
    inner = slice(_AROUND, _AROUND + _TILE)
    for y, x in sorted(product(steps, steps), key=lambda step: abs(step[0]) + abs(step[1])):
        apart = _apart(new, _moved(old, reach + y / 2, reach + x / 2, size))
        total = _window(apart.astype(np.uint16), np.add)
        better = total < least
        np.copyto(least, total, where=better)
        np.copyto(left, apart[:, inner, inner], where=better)
    found: Flags = (left > limit).any(axis=(1, 2))
    return found


def _cut(picture: NDArray[np.uint8], tiles: Integers, margin: int) -> NDArray[np.uint8]:
    """The tiles with what is around them."""
    import numpy as np

    rows, columns = -picture.shape[0] % _TILE, -picture.shape[1] % _TILE
    padded = np.pad(picture, ((margin, margin + rows), (margin, margin + columns)), mode="edge")
    size = _TILE + 2 * margin
    every = np.lib.stride_tricks.sliding_window_view(padded, (size, size))[::_TILE, ::_TILE]
    cut: NDArray[np.uint8] = every[tiles[:, 0], tiles[:, 1]]
    return cut


def _moved(tiles: NDArray[np.uint8], y: float, x: float, size: int) -> NDArray[np.uint8]:
    """What is there so many points farther down and to the right; half points are a mean."""
    import numpy as np

    top, left = int(y), int(x)
    found = tiles[:, top : top + size, left : left + size]
    if y == top and x == left:
        return found
    down, right = int(y != top), int(x != left)
    corners = {(0, 0), (down, 0), (0, right), (down, right)}
    total = np.zeros(found.shape, np.uint16)
    for dy, dx in corners:
        total += tiles[:, top + dy : top + dy + size, left + dx : left + dx + size]
    return (total // len(corners)).astype(np.uint8)


def _window(tiles: NDArray[Any], work: np.ufunc) -> NDArray[Any]:
    """The sum, or the extreme, of what is around each point."""
    for axis in (1, 2):
        width = tiles.shape[axis] - 2 * _AROUND
        parts = [
            tiles[:, k : k + width] if axis == 1 else tiles[:, :, k : k + width]
            for k in range(2 * _AROUND + 1)
        ]
        tiles = work(parts[0], parts[1])
        for part in parts[2:]:
            work(tiles, part, out=tiles)
    return tiles


def _recoloured(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> Flags:
    """Where a colour is not what it was in the neighbourhood, in squares of four points."""
    import numpy as np

    old, new = (
        one[: one.shape[0] // 4 * 4, : one.shape[1] // 4 * 4]
        .reshape(one.shape[0] // 4, 4, one.shape[1] // 4, 4, 2)
        .mean(axis=(1, 3))
        for one in (before, after)
    )
    found = np.zeros(old.shape[:2], bool)
    for a, b in ((old, new), (new, old)):
        near = np.lib.stride_tricks.sliding_window_view(
            np.pad(b, ((1, 1), (1, 1), (0, 0)), mode="edge"), (3, 3), axis=(0, 1)
        )
        beyond = np.maximum(a - near.max(axis=(3, 4)), near.min(axis=(3, 4)) - a)
        found |= (beyond > _COLOUR).any(axis=2)
    return found


def _boxes(marked: Flags, width: int, height: int) -> tuple[tuple[int, int, int, int], ...]:
    """Marked tiles that touch each other, or nearly so, as boxes."""
    left = {(int(y), int(x)) for y, x in zip(*marked.nonzero(), strict=True)}
    found = []
    while left:
        part, waiting = set[tuple[int, int]](), [left.pop()]
        while waiting:
            y, x = waiting.pop()
            part.add((y, x))
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-2, -1, 0, 1, 2)} & left
            left -= near
            waiting += near
        top, side = min(y for y, _ in part), min(x for _, x in part)
        bottom, end = max(y for y, _ in part) + 1, max(x for _, x in part) + 1
        found.append(
            (
                *(side * _TILE, top * _TILE),
                min(end * _TILE, width) - side * _TILE,
                min(bottom * _TILE, height) - top * _TILE,
            )
        )
    found.sort(key=lambda box: -box[2] * box[3])
    return tuple(found[:_MOST_BOXES])
