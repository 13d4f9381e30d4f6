"""Runs a notebook in a real Jupyter kernel: `python tests/support/notebook_runs.py NOTEBOOK OUT`, in the folder of its files.

A process of its own, because the sockets of Jupyter's client are closed when it ends.
"""

import sys
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient

#: The kernel of this very environment, wherever Jupyter's own settings point.
_KERNEL = KernelSpec(
    argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    display_name="here",
    language="python",
)


class KernelHere(AsyncKernelManager):
    @property
    def kernel_spec(self) -> KernelSpec:
        return _KERNEL


if __name__ == "__main__":
    notebook = nbformat.read(sys.argv[1], as_version=4)
    resources = {"metadata": {"path": str(Path.cwd())}}
    NotebookClient(notebook, km=KernelHere(), timeout=120, resources=resources).execute()
    nbformat.write(notebook, sys.argv[2])
