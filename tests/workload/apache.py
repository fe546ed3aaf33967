"""Apache httpd as a proxy that ends TLS, and asks a service over TLS."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.workload.ports import free_port, listening
from tests.workload.servers import Certificate, Server

_MODULES = Path("/usr/lib/apache2/modules")
_CONFIGURATION = """
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
ErrorLog {folder}/errors
DefaultRuntimeDir {folder}
Listen 127.0.0.1:{port}
User www-data
Group www-data
{modules}
StartServers {processes}
ServerLimit {processes}
MaxRequestWorkers {at_once}
{limits}
KeepAlive On
MaxKeepAliveRequests 0
<VirtualHost *:{port}>
    SSLEngine on
    SSLCertificateFile {certificate.certificate}
    SSLCertificateKeyFile {certificate.key}
    SSLProxyEngine on
    SSLProxyCACertificateFile {certificate.certificate}
    ProxyPass / https://localhost:{upstream}/
</VirtualHost>
"""
_LIMITS = {
    "event": (2, 50, "ThreadsPerChild 25"),
    "prefork": (30, 30, "MinSpareServers 1\nMaxSpareServers 30"),
}
"""By kind: processes, connections at once, and its other limits."""


@contextlib.contextmanager
def running_apache(
    certificate: Certificate, folder: Path, upstream: int, kind: str
) -> Iterator[Server]:
    """Run Apache in front of a service; ``kind``: of its processes, ``event`` or ``prefork``."""
    port = free_port()
    names = (f"mpm_{kind}", "authz_core", "ssl", "proxy", "proxy_http", "socache_shmcb")
    modules = "\n".join(f"LoadModule {name}_module {_MODULES}/mod_{name}.so" for name in names)
    processes, at_once, limits = _LIMITS[kind]
    configuration = folder / "apache.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            folder=folder,
            port=port,
            modules=modules,
            processes=processes,
            at_once=at_once,
            limits=limits,
            certificate=certificate,
            upstream=upstream,
        )
    )
    # When it ends, prefork signals its process group, which would be that of the tests.
    command = ("setsid", "/usr/sbin/apache2", "-DFOREGROUND", "-f", configuration)
    with listening(command, port) as process:
        yield Server(process.pid, port)
