"""Which addresses belong to the open internet; requests for tools go to no others. Pure.

The tables are IANA's special-purpose address registries (RFC 6890), written out because the ``is_global``
of Python differs from version to version and knows nothing of addresses inside addresses.
"""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

_NOT_PUBLIC_4 = tuple(map(IPv4Network, (
    "0.0.0.0/8",  # this network: Linux connects to itself
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",  # private
    "100.64.0.0/10",  # shared by customers of a provider (CGNAT)
    "127.0.0.0/8", "169.254.0.0/16",  # loopback; link-local, and the metadata of clouds
    "168.63.129.16/32",  # Azure's own service for its virtual machines
    "192.0.0.0/24", "192.88.99.0/24",  # protocol assignments, 6to4 relays
    "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",  # documentation
    "198.18.0.0/15",  # benchmarks
    "224.0.0.0/4", "240.0.0.0/4",  # multicast; reserved, and broadcast
)))  # fmt: skip
_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(map(IPv6Network, (
    "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
    "2001:db8::/32", "3fff::/20",  # documentation
)))  # fmt: skip
#: Networks whose addresses lead to the IPv4 address inside them -> how many bits stand behind it.
_TRANSLATED = {
    IPv6Network("::ffff:0:0/96"): 0,  # IPv4-mapped
    IPv6Network("64:ff9b::/96"): 0,  # NAT64
    IPv6Network("2002::/16"): 80,  # 6to4
}
#: Interface identifiers of ISATAP (RFC 5214), in front of the IPv4 address.
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})


def is_public(text: str) -> bool:
    """Whether an address, possibly with a zone (``fe80::1%eth0``), is one of the open internet.

    An IPv6 address that holds an IPv4 address is as public as that. Raises ValueError if it is no address.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    inner = _inner(address)
    if inner is not None and not is_public(str(inner)):
        return False
    if any(address in network for network in _TRANSLATED):
        return True
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


def _inner(address: IPv6Address) -> IPv4Address | None:
    number = int(address)
    for network, behind in _TRANSLATED.items():
        if address in network:
            return IPv4Address(number >> behind & 0xFFFF_FFFF)
    return IPv4Address(number & 0xFFFF_FFFF) if number >> 32 & 0xFFFF_FFFF in _ISATAP else None
