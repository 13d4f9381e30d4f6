"""The validity report of a span: what may be believed of a board, and what happened to it.

Everything follows from the arena's log, its policy and the raters' settings. The same log gives
the same report.
"""

from tiltyard.core.policy.validity.report.report_builder import (
    ValidityReport,
    report_on_span,
    validity_report,
)

__all__ = ["ValidityReport", "report_on_span", "validity_report"]
