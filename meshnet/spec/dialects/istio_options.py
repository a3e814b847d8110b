"""The table of istio-iptables' options: flags, variables, and what each says. Flags, help and annotations go by it."""

from __future__ import annotations

from meshnet.model.errors import Wrong
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Takes = Literal["word", "list", "flag", "seconds"]


@value
class Option:
    """``name`` is the long flag's; ``also`` are variables besides the one that the name gives."""

    name: str
    short: str
    takes: Takes
    says: str
    also: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return self.name.upper().replace("-", "_")

    @property
    def label(self) -> str:
        """The option in a message: every name by which somebody may have given it."""
        names = (*([f"-{self.short}"] if self.short else []), self.variable, *self.also)
        return f"--{self.name} ({', '.join(names)})"


RULES: tuple[Option, ...] = (
    Option("envoy-port", "p", "word", "Port on which the proxy takes outbound connections."),
    Option("inbound-capture-port", "z", "word", "Port on which the proxy takes inbound connections."),
    Option("inbound-tunnel-port", "e", "word", "Port of the proxy's tunnel listener, which peers dial directly."),
    Option("proxy-uid", "u", "list", "User ids of the proxy; without them that of ENVOY_USER, or else 1337."),
    Option("proxy-gid", "g", "list", "Group ids of the proxy; without them the same numbers as the user ids."),
    Option("istio-inbound-interception-mode", "m", "word", "REDIRECT, TPROXY or NONE, for inbound connections."),
    Option("istio-inbound-ports", "b", "list", "Inbound ports that are captured; * for all, empty for none."),
    Option("istio-local-exclude-ports", "d", "list", "Inbound ports that are left alone; counts beside -b '*' alone."),
    Option("istio-service-cidr", "i", "list", "Destination blocks that are captured; * for all, empty for none."),
    Option("istio-service-exclude-cidr", "x", "list", "Destination blocks that are left alone."),
    Option("istio-outbound-ports", "q", "list", "Destination ports that are captured whatever -i says."),
    Option("istio-local-outbound-ports-exclude", "o", "list", "Destination ports that are left alone."),
    Option("kube-virt-interfaces", "k", "list", "Interfaces of virtual machines, whose traffic is outbound."),
    Option("istio-exclude-interfaces", "c", "list", "Interfaces that are left alone both ways."),
    Option("istio-inbound-tproxy-mark", "t", "word", "Mark of connections under TPROXY."),
    Option("istio-inbound-tproxy-route-table", "r", "word", "Routing table that delivers marked packets here."),
    Option("redirect-dns", "", "flag", "Capture queries to the resolvers of resolv.conf.", ("ISTIO_META_DNS_CAPTURE",)),
    Option("capture-all-dns", "", "flag", "With --redirect-dns: capture queries to every resolver."),
    Option("drop-invalid", "", "flag", "Drop packets that conntrack finds invalid.", ("INVALID_DROP",)),
    Option(
        "dual-stack",
        "",
        "flag",
        "Rules for IPv6 too in a pod that has addresses of both families.",
        ("ISTIO_AGENT_DUAL_STACK", "ISTIO_DUAL_STACK"),
    ),
    Option("istio-outbound-owner-groups", "", "list", "Groups whose processes are captured; * for all."),
    Option("istio-outbound-owner-groups-exclude", "", "list", "Groups whose processes are left alone."),
    Option("istio-outbound-ipv4-loopback-cidr", "", "word", "IPv4 block that counts as the pod's own loopback."),
    Option("envoy-user", "", "word", "User whose ids the proxy has when --proxy-uid says nothing."),
)
"""What decides the rules."""

BEHAVIOUR: tuple[Option, ...] = (
    Option("dry-run", "n", "flag", "Print what would be done, and do nothing."),
    Option("run-validation", "", "flag", "Connect through the rules afterwards; exit 126 when that isn't redirected."),
    Option("iptables-probe-port", "", "word", "Port to which the validation connects."),
    Option("probe-timeout", "", "seconds", "How long the validation may take, such as 5s."),
    Option("skip-rule-apply", "", "flag", "Write no rules; with --run-validation, only look at those that are there."),
    Option("network-namespace", "", "word", "Work in this network namespace: a path or a name."),
    Option("cni-mode", "", "flag", "As called by a CNI plugin: work in --network-namespace, which must be given."),
    Option("reconcile", "", "flag", "Replace rules that differ. They always are; taken for its name's sake."),
    Option("cleanup-only", "", "flag", "Take every rule and route away: meshnet's, and what istio-iptables left."),
    Option("force-apply", "", "flag", "Write the rules anew, even if all of them are there already."),
    Option(
        "native-nftables",
        "",
        "flag",
        "Rules in nftables' own language, in the table inet meshnet; no variant of iptables is asked.",
    ),
    Option("force-iptables-binary", "", "word", "legacy or nft: this variant, whatever the namespace holds."),
    Option("restore-format", "f", "flag", "Of earlier releases of istio-iptables; taken, and means nothing here."),
    Option("host-nsenter-exec", "", "flag", "Of earlier releases of istio-iptables; taken, and means nothing here."),
    Option(
        "iptables-trace-logging", "", "flag", "In front of each rule one that logs its packets, to NFLOG group 1337."
    ),
)
"""What decides how the work is done."""

ALL: tuple[Option, ...] = (*RULES, *BEHAVIOUR)


@value
class Word:
    """What was given for an option, and how a message calls the place where it was given."""

    text: str
    label: str


def read_truth(word: str) -> bool:
    """A flag's value, in the spellings that Go's ParseBool takes."""
    if word in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if word in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise Wrong(f"not true or false ({word})", "true or false")
