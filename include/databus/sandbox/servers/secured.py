"""The spine's servers as a careful operator runs them: TLS only, logins, client certificates.

`kafka-tls`: SASL_SSL with PLAIN and SCRAM-SHA-512, and a second listener with mutual TLS. `mysql-tls`, `mariadb-tls`:
require_secure_transport. `zookeeper-tls`: only the secure client port, which wants a client certificate. All use the
authority in the home's folder `tls`; passwords are random, one file each.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from databus.sandbox.certificates import ACCOUNT, Authority, KeyPair, authority
from databus.sandbox.os_user import own, server_user
from databus.sandbox.servers.kafka import Kafka
from databus.sandbox.servers.mariadb import MariaDb
from databus.sandbox.servers.mysql import MySql
from databus.sandbox.servers.protocol import Context, NotHealthyError
from databus.sandbox.servers.sql import SQL_CREDENTIALS, SqlServer
from databus.sandbox.servers.zookeeper import ZooKeeper
from databus.tls import TlsFiles, handshake

_SERVER_HOST = ("127.0.0.1",)
"""The certificates name the address alone: "localhost" reaches the same server under a name that does not fit."""


def server_pair(context: Context) -> tuple[Authority, KeyPair]:
    """The authority, and the server's own certificate."""
    found = authority(context.folder.parent)
    return found, found.issue(context.name, _SERVER_HOST)


@dataclass(frozen=True)
class SecuredKafka(Kafka):
    """Kafka node with TLS: `client-1` speaks SASL_SSL, `mutual-1` SSL with client certificates."""

    def properties(self, context: Context, node: int) -> dict[str, object]:
        """server.properties (Kafka documentation, "Security"); stores are PEM files (KIP-651)."""
        known, pair = server_pair(context)
        password, broker = known.password(context.name), known.password(f"{context.name}-broker")
        module = "org.apache.kafka.common.security"
        plain = f'{module}.plain.PlainLoginModule required username="broker" password="{broker}"'
        client, mutual = (f"{context.host}:{context.ports[f'{name}-{node}']}" for name in ("client", "mutual"))
        return super().properties(context, node) | {
            "listeners": f"SASL_SSL://{client},SSL://{mutual},"
            f"CONTROLLER://{context.host}:{context.ports[f'controller-{node}']}",
            "advertised.listeners": f"SASL_SSL://{client},SSL://{mutual}",
            "inter.broker.listener.name": "SASL_SSL",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{plain} user_broker="{broker}" '
            f'user_{ACCOUNT}="{password}";',
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": pair.bundle,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": known.certificate,
            "listener.name.ssl.ssl.client.auth": "required",
        }

    def client_settings(self, context: Context) -> dict[str, object]:
        """Librdkafka settings of a client of this cluster."""
        known = authority(context.folder.parent)
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ACCOUNT,
            "sasl.password": known.password(context.name),
            "ssl.ca.location": str(known.certificate),
        }

    def format_options(self, context: Context) -> tuple[str, ...]:
        """The SCRAM account, which lies in the cluster's own metadata (KIP-900)."""
        password = authority(context.folder.parent).password(context.name)
        return ("--add-scram", f"SCRAM-SHA-512=[name={ACCOUNT},password={password}]")


class _TlsFolder(SqlServer):
    """TLS folder of both database servers: a copy of the TLS files that the server's user can read."""

    def make_folders(self, context: Context) -> None:
        """Make the folders, and copy the TLS files into one of them."""
        super().make_folders(context)
        user, folder = server_user(), self._tls_folder(context)
        own(folder, user)
        known, pair = server_pair(context)
        for source, name in ((known.certificate, "ca.pem"), (pair.certificate, "server.crt"), (pair.key, "server.key")):
            target = folder / name
            shutil.copyfile(source, target)
            target.chmod(0o600)
            if os.geteuid() == 0:
                os.chown(target, user.pw_uid, user.pw_gid)

    def shared_options(self, context: Context) -> dict[str, object]:
        """Options of both, with TLS and nothing else."""
        folder = self._tls_folder(context)
        return super().shared_options(context) | {
            "ssl_ca": folder / "ca.pem",
            "ssl_cert": folder / "server.crt",
            "ssl_key": folder / "server.key",
            "require_secure_transport": "ON",
        }

    @staticmethod
    def _tls_folder(context: Context) -> Path:
        return context.data.parent / "tls"


@dataclass(frozen=True)
class SecuredMySql(_TlsFolder, MySql):
    """MySQL that refuses a TCP connection without TLS."""


@dataclass(frozen=True)
class SecuredMariaDb(_TlsFolder, MariaDb):
    """MariaDB that refuses a TCP connection without TLS."""


@dataclass(frozen=True)
class SecuredZooKeeper(ZooKeeper):
    """ZooKeeper on Netty with only its secure client port, which wants a client certificate."""

    def settings(self, context: Context, node: int) -> dict[str, object]:
        """zoo.cfg (ZooKeeper Administrator's Guide, "Encryption, Authentication, Authorization Options")."""
        known, pair = server_pair(context)
        plain = super().settings(context, node)
        host, port = plain.pop("clientPortAddress"), plain.pop("clientPort")
        return plain | {
            "secureClientPort": port,
            "secureClientPortAddress": host,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.type": "PEM",
            "ssl.keyStore.location": pair.bundle,
            "ssl.trustStore.type": "PEM",
            "ssl.trustStore.location": known.certificate,
            "ssl.clientAuth": "need",
            # Clients are distinguished by their digest login; any certificate of the authority may connect.
            "ssl.hostnameVerification": "false",
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        }

    def check_health(self, context: Context) -> None:
        """The secure port completes a handshake with a client of the authority; the log is asked for the rest."""
        known = authority(context.folder.parent)
        client = known.issue("client", ())
        files = TlsFiles(str(known.certificate), str(client.certificate), str(client.key))
        try:
            found = handshake(context.host, context.ports["client"], files.context(context.name))
        except OSError as error:
            raise NotHealthyError(f"{context.host}: {error}") from None
        if found.fault is not None:
            raise NotHealthyError(f"{found.fault.what}: {found.detail}")


KAFKA_TLS = SecuredKafka("kafka-tls", {"client-1": 19792, "controller-1": 19892, "mutual-1": 19794})
ZOOKEEPER_TLS = SecuredZooKeeper("zookeeper-tls", {"client": 12281})
MYSQL_TLS = SecuredMySql("mysql-tls", {"sql": 13316}, credentials=SQL_CREDENTIALS, stops_within_s=30.0)
MARIADB_TLS = SecuredMariaDb("mariadb-tls", {"sql": 13317}, credentials=SQL_CREDENTIALS, stops_within_s=30.0)
