"""The validity report as text, tables and charts."""

from tiltyard.report.validity.validity_documents import validity_markdown, validity_page

__all__ = ["validity_markdown", "validity_page"]
