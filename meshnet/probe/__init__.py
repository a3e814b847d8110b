"""Packets sent and watched: the proof that a namespace does what the spec says."""
