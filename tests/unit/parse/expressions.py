"""Expressions of nftables as kernels hand them over."""

from __future__ import annotations

import struct
import sys

from meshnet.kernel.netlink import attribute
from meshnet.model.nft import RawExpression

EQ, NEQ, LTE, GTE = 0, 1, 3, 5


def big(number, size=4):
    return number.to_bytes(size, "big")


def host(number, size=4):
    return number.to_bytes(size, sys.byteorder)


def made(name, **more):
    return RawExpression(name, {int(kind[1:]): body for kind, body in more.items()})


def meta(key, register=1):
    return made("meta", _1=big(register), _2=big(key))


def ct(key, register=1):
    return made("ct", _1=big(register), _2=big(key))


def payload(base, offset, length):
    return made("payload", _1=big(1), _2=big(base), _3=big(offset), _4=big(length))


def cmp(operation, data):
    return made("cmp", _1=big(1), _2=big(operation), _3=attribute(1, data))


def bitwise(mask, xor):
    return made("bitwise", _1=big(1), _2=big(1), _4=attribute(1, mask), _5=attribute(1, xor))


def swapped():
    return made("byteorder", _1=big(1), _2=big(1), _3=big(1), _4=big(4), _5=big(4))


def between(operation, low, high):
    return made("range", _1=big(1), _2=big(operation), _3=attribute(1, low), _4=attribute(1, high))


def verdict(code, chain=""):
    body = attribute(1, struct.pack("!i", code)) + (attribute(2, chain.encode() + b"\0") if chain else b"")
    return made("immediate", _1=big(0), _2=attribute(2, body))


def value(data, register=1):
    return made("immediate", _1=big(register), _2=attribute(1, data))


TCP = (meta(16), cmp(EQ, b"\x06"))
IPV4 = (meta(15), cmp(EQ, b"\x02"))
IPV6 = (meta(15), cmp(EQ, b"\x0a"))
COUNTER = made("counter", _1=big(90, 8), _2=big(3, 8))
