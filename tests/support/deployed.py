"""What stands under deploy/, read."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SOURCE = ROOT / "src" / "tiltyard"

PORT = "8420"
ACCOUNT = 10001
HOME = "/var/lib/tiltyard"


def manifests():
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path.name, document


MANIFESTS = [*manifests()]


def of_kind(kind):
    return {one["metadata"]["name"]: one for _, one in MANIFESTS if one["kind"] == kind}


def pods():
    """Name and template of whatever runs pods."""
    for kind in ("Deployment", "Job"):
        for name, one in of_kind(kind).items():
            yield f"{kind.lower()}-{name}", one["spec"]["template"]


PODS = dict(pods())


def page():
    """The text that tells how to deploy."""
    return (DEPLOY / "README.md").read_text(encoding="utf-8")


def caddyfile(address: str, web: str, *, port: str = "8420", options: str = "") -> str:
    """The configuration of the proxy, with a certificate by an authority of its own."""
    text = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    own = f"{{\n\tadmin off\n\tskip_install_trust\n\tlocal_certs\n\t{options}\n"
    text = text.replace("{$TILTYARD_BASE_URL}", address).replace(
        "{$WEB_HOST:127.0.0.1} 8420", f"{web} {port}"
    )
    return text.replace("{\n", own, 1)
