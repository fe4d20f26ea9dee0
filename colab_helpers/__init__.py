"""Measure, explain, draw and check accelerator performance in notebooks.

Nothing is imported here on purpose: `import colab_helpers` costs no more than the interpreter
itself and works where nothing but the standard library is installed. Import the room you need:

    from colab_helpers import benchmark, hardware, runtime

The rooms, one question each:

    runtime       Where does this code run, and on what?
    preflight     Does that fit, and if not, what fixes it?
    doctor        What does this error mean, and what in this notebook is gone?
    hardware      What chip is it, and what can it do at most?
    benchmark     How long does this take, honestly?
    memory        Where do the bytes go?
    precision     Which number formats does this chip run natively, and what do they lose?
    devices       One chip or many: how do I get several, and which strategy fits them?
    figures       How do I show it?
    facts         What is true of the platform today, who says so, since when?
    published     What have others measured on chips that I don't have?
    colab_images  Which packages does each of Colab's runtime images carry, as last tested?
    lessons       What only the lessons need: exercises, models, data, records, replay
"""

__version__ = "0.1.0"


def load_ipython_extension(shell):
    """Explain known errors under their traceback; `%load_ext colab_helpers` calls it with IPython's
    `shell`."""
    from colab_helpers.doctor import hook

    hook.load(shell)


def unload_ipython_extension(shell):
    """Explain no more; `%unload_ext colab_helpers` calls it with IPython's `shell`."""
    from colab_helpers.doctor import hook

    hook.unload(shell)
