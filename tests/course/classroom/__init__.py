"""Slides, hand-outs, and what a class hands in."""
