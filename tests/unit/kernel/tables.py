"""The head of a table of nftables, as the kernel (6.18) said it."""

from __future__ import annotations

TABLE = (  # table inet t { comment "meshnet:table"; … }
    "01000002060001007400000008000300000000030c0004000000000000000001080002000000000014000600000e6d6573686e65743a"
    "7461626c6500"
)
