"""Slides, handouts, and what a class hands in."""
