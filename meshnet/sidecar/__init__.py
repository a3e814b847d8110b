"""The embedded transparent proxy."""
