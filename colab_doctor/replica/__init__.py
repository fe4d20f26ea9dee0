"""A Colab image on your own machine: its Python, its versions, and a notebook run in it.

The command is `colab-replica run notebook.ipynb`.
"""
