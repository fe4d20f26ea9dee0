"""Measure, explain and plan accelerator performance in notebooks.

Nothing is imported here on purpose: `import colab_helpers` costs no more than the interpreter itself and
works where nothing but the standard library is installed. Import the module you need:

    from colab_helpers import benchmark, hardware, runtime

    runtime             where this code runs, and on what
    preflight           whether that fits, and which click or line fixes it
    hardware            which chip it is, and what its data sheet allows
    benchmark           timing that waits for the device
    memory              bytes: counted, predicted, given back
    precision           number formats that a chip computes in natively, and what they lose
    plan                whether a model fits, how long it takes, what it costs
    formulas            what a transformer needs, by formula: training steps, and answering
    checkpoints         atomic checkpoint files, and resuming from them
    figures             plots in one style, with alt text
    simulated_devices   several JAX devices on one CPU
    chip_throughput     how fast chips compute and move bytes, from published measurements
    published_results   measurements that others have published
    platform_facts      facts about the platform, with source and date
    runtime_images      the packages of each of Colab's runtime images
"""

__version__ = "0.1.0"
