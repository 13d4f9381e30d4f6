"""The operator's pages: every one behind the sign-in, every change in the audit, nothing needs a script."""
