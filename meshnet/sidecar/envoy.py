"""Envoy's bootstrap for a spec, as plain data: what a real sidecar has to be told so that the rules fit it.

Two listeners take what the rules bring: ``virtualInbound`` what came for the pod, ``virtualOutbound`` what the pod
sends. Both ask the kernel for the destination (``original_dst``); where the spec keeps the source, ``original_src``
puts the client's address and the mark on the connection to the application. Field names are those of Envoy's v3 API.
"""

from __future__ import annotations

from meshnet.model.errors import Wrong
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from meshnet.model.cidr import Family
    from meshnet.sidecar.config import Settings

    Protocol = Literal["http", "tcp"]
    Carries = Literal["nothing", "proxy-protocol", "x-forwarded-for"]
    Data = dict[str, Any]

TYPE = "type.googleapis.com/envoy."
ANY: dict[Family, str] = {4: "0.0.0.0", 6: "::"}  # noqa: S104  the rules bring what is for any address
LOOPBACK: dict[Family, str] = {4: "127.0.0.1", 6: "::1"}
SOL_SOCKET, SO_MARK = 1, 36
IPPROTO_TCP, TCP_MAXSEG = 6, 2
"""Numbers of Linux (asm-generic/socket.h, linux/tcp.h): Envoy takes socket options by number."""


@value
class Declared:
    """A port of the application that the sidecar knows: inbound connections to it have a filter chain of their own."""

    port: int
    protocol: Protocol = "http"

    def __post_init__(self) -> None:
        if self.protocol not in ("http", "tcp"):
            raise Wrong(f"no protocol of a declared port ({self.protocol})", "http or tcp")


@value
class Envoy:
    """What decides a bootstrap beside the sidecar's settings.

    ``carries`` is how a declared port's application learns of its client other than by the packets' address.
    ``admin`` is ``host:port`` or the absolute path of a unix socket. ``connections`` bounds the open ones of the
    whole process; None leaves Envoy's own bounds.
    """

    settings: Settings
    declared: tuple[Declared, ...] = ()
    carries: Carries = "nothing"
    admin: str = "127.0.0.1:15000"
    access_log: str = "/dev/stdout"
    connections: int | None = None

    def __post_init__(self) -> None:
        numbers = [item.port for item in self.declared]
        if len(set(numbers)) != len(numbers):
            raise Wrong("a declared port twice", "each port once")
        if self.carries == "x-forwarded-for" and any(item.protocol != "http" for item in self.declared):
            raise Wrong("x-forwarded-for on a port that isn't HTTP", "proxy-protocol, or http ports alone")
        if self.carries != "nothing" and not self.declared:
            raise Wrong(f"{self.carries} without a declared port", "the application's port, such as 80")
        if self.settings.dials == "loopback" and not self.declared:
            raise Wrong("a sidecar that dials loopback without a declared port", "the application's port, such as 80")


def bootstrap(envoy: Envoy) -> Data:
    """The whole bootstrap, ready to be written as JSON or YAML."""
    settings = envoy.settings
    listeners = [*([_inbound(envoy)] if settings.listens_inbound else [])]
    listeners += [*([_outbound(envoy)] if settings.listens_outbound else [])]
    made: Data = {
        "node": {"id": "meshnet", "cluster": "meshnet"},
        "admin": {"address": _admin(envoy.admin)},
        "static_resources": {"listeners": listeners, "clusters": _clusters(envoy)},
    }
    if envoy.connections is not None:
        limit = {
            "@type": TYPE + "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
            "max_active_downstream_connections": envoy.connections,
        }
        name = "envoy.resource_monitors.global_downstream_max_connections"
        made["overload_manager"] = {"resource_monitors": [{"name": name, "typed_config": limit}]}
    return made


def _admin(word: str) -> Data:
    if word.startswith("/"):
        return {"pipe": {"path": word}}
    host, _, number = word.rpartition(":")
    return _address(host.strip("[]"), int(number))


def _inbound(envoy: Envoy) -> Data:
    settings = envoy.settings
    filters = [_original_dst()]
    if settings.original_source:
        config = {"@type": TYPE + "extensions.filters.listener.original_src.v3.OriginalSrc"}
        filters.append(
            {
                "name": "envoy.filters.listener.original_src",
                "typed_config": {**config, "bind_port": False, "mark": settings.inbound_mark},
            }
        )
    ports = range(settings.inbound_ports.first, settings.inbound_ports.last + 1)
    chains = [_declared_chain(envoy, item, family) for item in envoy.declared for family in settings.families]
    chains += [_passthrough_chain(family) for family in settings.families]
    made = _listener(envoy, "virtualInbound", "inbound", list(ports), 0)
    return {**made, "listener_filters": filters, "filter_chains": chains}


def _outbound(envoy: Envoy) -> Data:
    made = _listener(envoy, "virtualOutbound", "outbound", [envoy.settings.outbound_port], 1)
    chain = {"name": "outbound", "filters": [_tcp("outbound", "PassthroughCluster")]}
    return {**made, "listener_filters": [_original_dst()], "filter_chains": [chain]}


def _listener(envoy: Envoy, name: str, prefix: str, ports: list[int], place: int) -> Data:
    settings = envoy.settings
    first, *more = [_address(ANY[family], number) for number in ports for family in settings.families]
    made: Data = {"name": name, "stat_prefix": prefix, "address": first}
    if more:
        made["additional_addresses"] = [{"address": address} for address in more]
    made["transparent"] = settings.transparent
    if settings.segment_sizes:
        option = {"level": IPPROTO_TCP, "name": TCP_MAXSEG, "int_value": settings.segment_sizes[place]}
        made["socket_options"] = [{"description": "who answers", "state": "STATE_PREBIND", **option}]
    return made


def _original_dst() -> Data:
    config = {"@type": TYPE + "extensions.filters.listener.original_dst.v3.OriginalDst"}
    return {"name": "envoy.filters.listener.original_dst", "typed_config": config}


def _declared_chain(envoy: Envoy, declared: Declared, family: Family) -> Data:
    match = {"destination_port": declared.port, "prefix_ranges": _everything(family)}
    name = _cluster_name(declared, family)
    if declared.protocol == "tcp":
        return {"name": name, "filter_chain_match": match, "filters": [_tcp(name, name)]}
    return {"name": name, "filter_chain_match": match, "filters": [_http(envoy, name)]}


def _passthrough_chain(family: Family) -> Data:
    cluster = f"InboundPassthroughClusterIpv{family}"
    return {
        "name": f"passthrough-ipv{family}",
        "filter_chain_match": {"prefix_ranges": _everything(family)},
        "filters": [_tcp(cluster, cluster)],
    }


def _everything(family: Family) -> list[Data]:
    return [{"address_prefix": ANY[family], "prefix_len": 0}]


def _tcp(prefix: str, cluster: str) -> Data:
    config = {"@type": TYPE + "extensions.filters.network.tcp_proxy.v3.TcpProxy"}
    return {
        "name": "envoy.filters.network.tcp_proxy",
        "typed_config": {**config, "stat_prefix": prefix, "cluster": cluster},
    }


def _http(envoy: Envoy, name: str) -> Data:
    log = {"@type": TYPE + "extensions.access_loggers.file.v3.FileAccessLog", "path": envoy.access_log}
    route = {"match": {"prefix": "/"}, "route": {"cluster": name, "timeout": "0s"}}
    router = {"@type": TYPE + "extensions.filters.http.router.v3.Router"}
    forwarded = envoy.carries == "x-forwarded-for"
    config = {
        "@type": TYPE + "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        # With the peer's address as the client's, what a client writes into the header itself is not believed.
        "use_remote_address": forwarded,
        "skip_xff_append": not forwarded,
        "access_log": [{"name": "envoy.access_loggers.file", "typed_config": log}],
        "route_config": {
            "name": name,
            "virtual_hosts": [{"name": "inbound", "domains": ["*"], "routes": [route]}],
        },
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    }
    return {"name": "envoy.filters.network.http_connection_manager", "typed_config": config}


def _clusters(envoy: Envoy) -> list[Data]:
    settings = envoy.settings
    made: list[Data] = []
    if settings.listens_inbound:
        made += [_declared_cluster(envoy, item, family) for item in envoy.declared for family in settings.families]
        for family in settings.families:
            made.append(_bound(_original(envoy, f"InboundPassthroughClusterIpv{family}"), envoy, family))
    if settings.listens_outbound:
        outbound = _original(envoy, "PassthroughCluster")
        if settings.outbound_mark is not None:
            option = {"level": SOL_SOCKET, "name": SO_MARK, "int_value": settings.outbound_mark}
            marked = [{"description": "the sidecar's mark", "state": "STATE_PREBIND", **option}]
            outbound["upstream_bind_config"] = {"socket_options": marked}
        made.append(outbound)
    return made


def _declared_cluster(envoy: Envoy, declared: Declared, family: Family) -> Data:
    name = _cluster_name(declared, family)
    if envoy.settings.dials == "loopback":
        made = _static(envoy, name, LOOPBACK[family], declared.port)
    else:
        made = _bound(_original(envoy, name), envoy, family)
    if envoy.carries == "proxy-protocol":
        raw = {"@type": TYPE + "extensions.transport_sockets.raw_buffer.v3.RawBuffer"}
        config = {
            "@type": TYPE + "extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
            "config": {"version": "V2"},
            "transport_socket": {"name": "envoy.transport_sockets.raw_buffer", "typed_config": raw},
        }
        made["transport_socket"] = {"name": "envoy.transport_sockets.upstream_proxy_protocol", "typed_config": config}
    return made


def _original(envoy: Envoy, name: str) -> Data:
    """A cluster whose hosts are the destinations that connections had."""
    made: Data = {"name": name, "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED"}
    return {**made, **_bounds(envoy)}


def _static(envoy: Envoy, name: str, host: str, number: int) -> Data:
    endpoint = {"endpoint": {"address": _address(host, number)}}
    load = {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]}
    return {"name": name, "type": "STATIC", **_bounds(envoy), "load_assignment": load}


def _bounds(envoy: Envoy) -> Data:
    return {"connect_timeout": f"{envoy.settings.connect_seconds:g}s"}


def _bound(cluster: Data, envoy: Envoy, family: Family) -> Data:
    """With the passthrough address as its source, by which the rules know that this packet is done."""
    if not envoy.settings.original_source:
        host = envoy.settings.passthrough(family)
        cluster["upstream_bind_config"] = {"source_address": {"address": host, "port_value": 0}}
    return cluster


def _cluster_name(declared: Declared, family: Family) -> str:
    return f"inbound-{declared.port}-ipv{family}"


def _address(host: str, number: int) -> Data:
    return {"socket_address": {"address": host, "port_value": number}}
