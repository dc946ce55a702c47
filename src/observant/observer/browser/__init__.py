"""A browser for pages that are empty until their scripts have run.

It looks through the same door as every visit (`Transport.fetch`), and its own connections pass a
proxy of ours that asks the same guard: see `observant.observer.browser.proxy`.
"""

from observant.plugins import lazy

__all__ = ["Browser", "BrowserSettings"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Browser": "observant.observer.browser.engine",
        "BrowserSettings": "observant.observer.browser.settings",
    },
)
