"""Tests of pages in a browser: a package, so that one browser serves them all."""
