"""Lesson text becomes notebooks and pages."""
