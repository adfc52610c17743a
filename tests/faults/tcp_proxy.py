"""The fault proxy under the name by which tests know it."""

from databus.testing.tcp_proxy import ProxyGroup, TcpProxy

__all__ = ["ProxyGroup", "TcpProxy"]
