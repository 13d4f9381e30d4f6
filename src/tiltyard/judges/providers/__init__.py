"""Providers: one module for each protocol, behind one small interface, on a thin HTTP client.

Only these modules speak HTTP to providers. Errors are translated here into `ProviderFault`, which says
whether a retry may help and whether the call may have been billed.
"""
