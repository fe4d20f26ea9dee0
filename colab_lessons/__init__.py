"""What only the lessons need: checks of exercises, shared networks and data, recorded results.

You don't need this package to use the helper.
"""
