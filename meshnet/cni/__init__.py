"""The CNI plugin: the protocol and its verbs, which pod is meant, and what the node keeps about it."""
