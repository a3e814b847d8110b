"""Profile istio: the chains, names, rules and order of istio-iptables, which its golden files hold.

What these rules do to packets is theirs; docs/profiles.md says where profile meshnet does otherwise, and why. Nothing
here is better than the original on purpose: who asks for this profile moves over without a change on the wire.
"""
