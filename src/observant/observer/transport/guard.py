"""Which network addresses may be spoken to.

The guard is asked when a socket is opened, with the address the socket will connect to. So it does
not matter how the address was found: typed in, in a redirect, in robots.txt, in a sitemap, or by a
name server that changes its mind between two questions.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Guard:
    """Refuses every address that is not on the public internet, except those allowed by name.

    `allow` lists networks in CIDR form. An IPv6 address that carries an IPv4 address (mapped,
    NAT64) is judged by the one inside; 6to4 and Teredo are refused whatever they carry.

    >>> guard = Guard(allow=["192.168.7.0/24"])
    >>> guard.refusal("192.168.7.9"), guard.refusal("93.184.216.34")
    (None, None)
    >>> guard.refusal("::ffff:169.254.169.254")
    '169.254.169.254 is link-local (169.254.0.0/16)'
    >>> Guard(allow=["lan"])
    Traceback (most recent call last):
        ...
    observant.errors.InputError: not a network: 'lan'; write it like 192.168.0.0/16 or fd00::/8
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self.allow = tuple(_network(text) for text in allow)
        self._known: dict[str, str | None] = {}

    def __repr__(self) -> str:
        return f"Guard(allow={[str(network) for network in self.allow]})"

    def refusal(self, address: str) -> str | None:
        """Why this address is refused, or None when it may be spoken to."""
        try:
            return self._known[address]
        except KeyError:
            if len(self._known) > 100_000:
                self._known.clear()
            return self._known.setdefault(address, self._judge(address))

    def refusal_of_host(self, host: str) -> str | None:
        """The same for the host of an address, when it is written as numbers; names pass here.

        >>> Guard().refusal_of_host("[::1]")
        '::1 is not in the public range 2000::/3'
        """
        text = host.strip("[]")
        if not (host.startswith("[") or text.replace(".", "").isdigit()):
            return None
        return self.refusal(text)

    def _judge(self, text: str) -> str | None:
        try:
            address = ip_address(text)
        except ValueError:
            return f"{text!r} is not a network address"
        if isinstance(address, IPv6Address) and address.scope_id:
            return f"{text} has a zone"
        inner = _inside(address)
        if any(address in network or inner in network for network in self.allow):
            return None
        return _not_public(inner)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise InputError(
            f"not a network: {text!r}; write it like 192.168.0.0/16 or fd00::/8"
        ) from None


def _inside(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _not_public(address: IPv4Address | IPv6Address) -> str | None:
    if isinstance(address, IPv4Address):
        table: list[tuple[IPv4Network | IPv6Network, str]] = _REFUSED_4
    elif address not in _PUBLIC_6:
        return f"{address} is not in the public range {_PUBLIC_6}"
    else:
        table = _REFUSED_6
    for network, name in table:
        if address in network:
            return f"{address} is {name} ({network})"
    return None


_NAT64 = IPv6Network("64:ff9b::/96")
_PUBLIC_6 = IPv6Network("2000::/3")

# IANA's special-purpose registries, everything that is not globally reachable, and one public
# address that clouds answer from inside. Our own table: the one in the standard library has changed
# from version to version.
_REFUSED_4: list[tuple[IPv4Network | IPv6Network, str]] = [
    (IPv4Network(network), name)
    for network, name in [
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by carriers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's own service"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "6to4 relays"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    ]
]
_REFUSED_6: list[tuple[IPv4Network | IPv6Network, str]] = [
    (IPv6Network(network), name)
    for network, name in [
        ("2001::/23", "reserved for protocols, Teredo among them"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "for documentation"),
    ]
]
