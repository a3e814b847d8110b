"""Namespaces, applications and a sidecar put together to try a spec."""
