"""The course as a web site.

`staging` writes what Sphinx reads, from lessons, docs and tables; `building` runs Sphinx and adds the Python
that pages run in the reader's browser. Nothing here is read by a lesson.
"""
