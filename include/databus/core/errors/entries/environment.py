"""Entries of error codes: engine, machine, TLS, a server that the command asks, sandbox."""

from __future__ import annotations

from databus.core.errors.entries import ErrorEntry

ENTRIES: dict[str, ErrorEntry] = {
    "engine_unavailable": ErrorEntry(
        "The Spark server cannot be reached, or stopped answering.",
        "Start it, or correct the connection; the batch is taken up again from its plan.",
        exits=(4,),
        retried=True,
    ),
    "drain_deadline": ErrorEntry(
        "A task was told to stop and gave up the batch in hand after its grace time.",
        "Nothing: the next run takes the batch up from its plan.",
        retried=True,
    ),
    "live_link_lost": ErrorEntry(
        "A live flow's run and its Spark task lost each other.",
        "Nothing: the next attempt starts a task anew. If it comes back, see the worker's log.",
        retried=True,
    ),
    "spark_needed": ErrorEntry(
        "A value of a batch, such as bytes that are no text of their character set, is read by Spark's lane alone.",
        "Nothing: its table goes through Spark by itself for the rest of the run, with the same records.",
    ),
    "live_task_failed": ErrorEntry(
        "A live flow's Spark task failed in a way that no error names.",
        "Read the message and the worker's log.",
    ),
    "package_missing": ErrorEntry(
        "A package that comes with an extra of databus is not installed.",
        "Install the extra by the command that the error names, such as pip install 'databus[quality]'.",
        exits=(2,),
    ),
    "package_version": ErrorEntry(
        "A package is installed in a version that databus cannot work with, or two that must be equal differ.",
        "Install the version that the error names.",
        exits=(2,),
    ),
    "environment_version": ErrorEntry(
        "A package or Python has another version than this one was tested with.",
        "Install the version that the hint names.",
    ),
    "environment_package": ErrorEntry(
        "A package that databus needs is not installed.",
        "Install it with pip, as the hint says.",
    ),
    "environment_java": ErrorEntry(
        "Java is not on the PATH.",
        "Install Java 17, where spark-submit or the sandbox are used.",
        exits=(),
    ),
    "private_data_wider": ErrorEntry(
        "Others than the owner may read folders in which rows lie.",
        "Run chmod -R go-rwx on them, as the hint says.",
        exits=(),
    ),
    "key_readable": ErrorEntry(
        "A private key's file may be read by others.",
        "Make it 600, owned by the user that runs the tasks.",
        exits=(),
    ),
    "tls_off": ErrorEntry(
        "Logins and rows cross the network in clear.",
        "Turn TLS on in the connection.",
        exits=(),
    ),
    "tls_not_verified": ErrorEntry(
        "TLS is on, but any server is taken for the right one.",
        "Give the CA in the connection's extra, and let host names be checked.",
        exits=(),
    ),
    "tls_files": ErrorEntry(
        "A file of certificates or keys cannot be used.",
        "Check its path, its permissions for this user, and that it is PEM.",
        exits=(2,),
    ),
    "tls_ca_unknown": ErrorEntry(
        "The server's certificate is not signed by a trusted CA.",
        "Give the CA that signed it in the connection's extra.",
    ),
    "tls_host_mismatch": ErrorEntry(
        "The server's certificate is for another host name.",
        "Use a name that stands in the certificate, or have it reissued.",
    ),
    "tls_certificate_expired": ErrorEntry(
        "The server's certificate has expired.",
        "Renew it; check this machine's clock.",
    ),
    "tls_certificate_not_yet_valid": ErrorEntry(
        "The server's certificate is not valid yet.",
        "Check the clocks of both machines, then the certificate.",
    ),
    "tls_client_certificate": ErrorEntry(
        "The server refuses this client's certificate, or wants one and got none.",
        "Give a certificate and key that the server's CA signed.",
    ),
    "tls_not_spoken": ErrorEntry(
        "The server does not speak TLS on this port.",
        "Use its TLS port, or turn TLS off in the connection.",
    ),
    "tls_required": ErrorEntry(
        "The server takes only connections with TLS.",
        "Turn TLS on in the connection.",
    ),
    "sasl_mechanism": ErrorEntry(
        "The broker does not offer the connection's SASL mechanism, or none is set.",
        "Set sasl.mechanism in the connection's extra, and its login and password.",
    ),
    "tls_failed": ErrorEntry(
        "The TLS handshake failed.",
        "Compare protocol versions and ciphers of both sides.",
    ),
    "sandbox_error": ErrorEntry(
        "A server of the sandbox could not be installed, started or stopped.",
        "Read its log: `databus sandbox logs`.",
    ),
    "sandbox_cancelled": ErrorEntry(
        "The start of a server of the sandbox was cancelled.",
        "Start it again.",
    ),
    "sandbox_download_failed": ErrorEntry(
        "Maven could not fetch a server's libraries.",
        "Check the network and the mirrors in ~/.m2/settings.xml, then try again.",
    ),
    "sandbox_java_too_old": ErrorEntry(
        "The Java of the PATH is too old for the servers.",
        "Install Java 17 and put it first in the PATH.",
    ),
    "sandbox_port_taken": ErrorEntry(
        "A port of the sandbox is taken by another program.",
        "Stop that program, or choose free ports with --ports-from.",
    ),
    "sandbox_program_missing": ErrorEntry(
        "A program or package of the sandbox is not installed.",
        "Install it, as the hint says.",
    ),
    "server_unavailable": ErrorEntry(
        "The server that --server or DATABUS_SERVER names does not answer, or the connection to it was cut off.",
        "Look at the address and at Airflow's API server. What was cut off may have been done.",
        exits=(4,),
        retried=True,
    ),
    "server_refused": ErrorEntry(
        "The server refuses what the command asked, by Airflow's login or rights, and gives no code of its own.",
        "Name a token that has not expired, or ask for the right: to see the DAG, or to edit it for changes.",
    ),
    "server_answer": ErrorEntry(
        "What answers at --server is not the API of a databus: a login page, a proxy, an Airflow without its plugin.",
        "Give the address of Airflow's API server, with the plugin of this version.",
    ),
    "verb_not_served": ErrorEntry(
        "The API in Airflow has no route for a verb of the command.",
        "Run it where the flow's servers can be reached, without --server and DATABUS_SERVER.",
        exits=(1, 2),
    ),
    "sandbox_server_died": ErrorEntry(
        "A server of the sandbox ended while it started.",
        "Read its log: `databus sandbox logs`.",
    ),
    "sandbox_server_unhealthy": ErrorEntry(
        "A server of the sandbox does not answer in time.",
        "Read its log (`databus sandbox logs`), then restart it.",
    ),
    "sandbox_server_unknown": ErrorEntry(
        "The sandbox has no server of that name, or it was not started.",
        "`databus sandbox status` names those that there are.",
        exits=(1, 2),
    ),
    "sandbox_state_invalid": ErrorEntry(
        "The sandbox's file of its state cannot be read.",
        "Restore the file, or stop its servers by hand and delete it.",
    ),
}
"""Code → its entry."""
