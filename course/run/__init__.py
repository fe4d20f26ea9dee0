"""Notebooks are run: here, under hard conditions, on what Colab ships, on Colab itself."""
