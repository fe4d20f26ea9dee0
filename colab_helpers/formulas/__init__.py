"""What a transformer needs, by formula: memory and time of training steps, and of answering.

No framework is needed, so these run in a browser, too.
"""
