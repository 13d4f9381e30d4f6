"""A certificate for localhost that no authority has signed; SSL_CERT_FILE makes it trusted."""

import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path) -> Path:
    """Write key.pem and cert.pem to a folder, and return the folder."""
    made = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"
    )
    try:
        subprocess.run(made.split(), cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl")
    return folder
