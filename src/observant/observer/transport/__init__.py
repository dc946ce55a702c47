"""The only way to the network: polite, guarded, bounded, and never surprised.

`Transport.fetch` is the only way observant asks anything of the world. Limits, politeness,
robots.txt, redirects, conditional requests and the address guard live behind it, so no caller can
forget them.
"""

from observant.observer.fetched import Fetched
from observant.observer.transport.conditional import Honesty, validators_of
from observant.observer.transport.fetch import Counts, Transport
from observant.observer.transport.guard import Guard
from observant.observer.transport.headers import checked_headers
from observant.observer.transport.limits import Limits
from observant.observer.transport.politeness import Politeness
from observant.store.visit import Validators

__all__ = [
    "Counts",
    "Fetched",
    "Guard",
    "Honesty",
    "Limits",
    "Politeness",
    "Transport",
    "Validators",
    "checked_headers",
    "validators_of",
]
