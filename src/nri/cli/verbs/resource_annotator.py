"""`nri resource-annotator`: an admission webhook that annotates pods with their resources."""

from __future__ import annotations

import click

from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

_FOLDER = "/etc/resource-annotator/certs.d"
EXAMPLES = [
    "nri resource-annotator --cert-file tls.crt --key-file tls.key --port 8443",
    "helm install resource-annotator deploy/helm/resource-annotator -f certificate.yaml",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option("--port", type=click.IntRange(0, 65535), default=8443, envvar="RESOURCE_ANNOTATOR_PORT", metavar="PORT",
              help="The port to listen on (environment: RESOURCE_ANNOTATOR_PORT). Default: 8443.")  # fmt: skip
@click.option("--cert-file", default=f"{_FOLDER}/tls.crt", envvar="RESOURCE_ANNOTATOR_CERT_FILE", metavar="FILE",
              help="The certificate (environment: RESOURCE_ANNOTATOR_CERT_FILE). "
              f"Default: {_FOLDER}/tls.crt.")  # fmt: skip
@click.option("--key-file", default=f"{_FOLDER}/tls.key", envvar="RESOURCE_ANNOTATOR_KEY_FILE", metavar="FILE",
              help="The certificate's private key (environment: RESOURCE_ANNOTATOR_KEY_FILE). "
              f"Default: {_FOLDER}/tls.key.")  # fmt: skip
@click.pass_obj
def command(settings: Settings, port: int, cert_file: str, key_file: str) -> None:
    """Run an admission webhook that annotates pods with their resources.

    Each pod that is created or changed gets the annotation noderesource.dev/resources, with the requests and limits of
    its containers as JSON, so that placement plugins and the node agent need not estimate them from cgroups. No pod is
    refused. The certificate is reloaded when it changes. SIGTERM ends the webhook.
    """
    import logging
    import signal

    try:
        from nri.plugins.resource_annotator.webhook import Webhook
    except ModuleNotFoundError as error:
        from nri.service.daemon import raise_missing_extra

        raise_missing_extra("nri resource-annotator", error, "resource-annotator")
    from nri.signals import Stop

    logging.basicConfig(level=logging.ERROR if settings.quiet else logging.INFO, format="%(levelname)s %(message)s")
    stop = Stop(second_ends=True)
    stop.listen(signal.SIGTERM)
    webhook = Webhook(port, cert_file, key_file)
    logging.getLogger("nri.resource-annotator").info("ready: port %d", webhook.port)
    stop.wait_for_signal()
    webhook.stop()
