"""meshnet: transparent traffic interception on Linux, compiled from a spec, applied, proven and explained."""

from __future__ import annotations

__version__ = "0.1.0"
