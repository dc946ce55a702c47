"""How much of anything one request may take."""

import msgspec

from observant.errors import InputError
from observant.observer.bounds import LARGEST
from observant.times import DAY


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one fetch may cost. Seconds and bytes; waiting for the host's turn is not counted.

    >>> Limits(total=5.0).body
    10485760
    >>> Limits(total=0.0)
    Traceback (most recent call last):
        ...
    observant.errors.InputError: the limit total must be above zero, not 0.0
    """

    connect: float = 10.0
    """Until the connection stands, TLS included."""
    first_byte: float = 20.0
    """Until the first line of the answer, from the start of the request."""
    total: float = 30.0
    """For the whole fetch with all its redirects."""
    slow_bytes: int = 64
    """Fewer bytes per second than this ..."""
    slow_seconds: float = 15.0
    """... for this long is a drip, and the fetch ends."""
    body: int = 10 * 2**20
    """Bytes after decompression, counted while they stream in."""
    headers: int = 64 * 2**10
    """Bytes of all header lines together, interim answers included."""
    header_count: int = 256
    """Header lines."""
    codings: int = 2
    """Content codings on top of each other."""
    url: int = 8192
    """Characters of an address."""
    redirects: int = 10
    """From one address to the next."""
    retries: int = 1
    """Quick second tries after a failure to connect, on hosts that were well until now."""
    truncate: bool = False
    """Keep the first `body` bytes of a longer body instead of failing."""

    def lifted(self, usual: "Limits") -> list[str]:
        """Which of these allow more than the usual ones.

        >>> Limits(body=2**30, total=5.0).lifted(Limits())
        ['body']
        """
        return [
            name
            for name in self.__struct_fields__
            if name != "truncate"
            and (
                getattr(self, name) < getattr(usual, name)
                if name == "slow_bytes"
                else getattr(self, name) > getattr(usual, name)
            )
        ]

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name not in {"redirects", "retries", "truncate", "slow_bytes"} and not value > 0:
                raise InputError(f"the limit {name} must be above zero, not {value}")
            if name in {"redirects", "retries", "slow_bytes"} and value < 0:
                raise InputError(f"the limit {name} must not be negative, not {value}")
            if value > (DAY if isinstance(value, float) else LARGEST):
                raise InputError(f"the limit {name} is too large")
