"""Saved benchmark records turned into tables, figures and one HTML page.

Everything here reads files: it never measures, and it imports neither the fuser, nor a backend,
nor a suite. The entrance is `fuser.reports.page.render`; the raw record is in
`fuser.reports.record`.
"""
