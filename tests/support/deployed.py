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
