"""Measure, explain, draw and check accelerator performance in notebooks.

Nothing is imported here on purpose: `import colab_helpers` costs no more than the interpreter
itself and works where nothing but the standard library is installed. Import the room you need:

    from colab_helpers import benchmark, hardware, runtime

The rooms, one question each:

    runtime     Where does this code run, and on what?
    preflight   Does that fit the lesson, and if not, what mends it?
    hardware    What chip is it, and what can it do at most?
    benchmark   How long does this take, honestly?
    exercises   Is my answer right, and if not, what should I look at?
    figures     How do I show it?
    reference   What did other hardware measure?
    facts       What is true of the platform today, who says so, since when?
    parts       Which parts of a lesson can run here, and what did the others show elsewhere?
    models      Which networks do the lessons share?
    data        Which data do they train on?
"""

__version__ = "0.1.0"
