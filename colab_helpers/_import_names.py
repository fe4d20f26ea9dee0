"""Import names and the distributions that bring them, where the two differ."""

from __future__ import annotations

import re

#: Import name -> the name to install it by.
_DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "community": "python-louvain",
    "cuml": "cuml-cu12",
    "cudf": "cudf-cu12",
    "cupy": "cupy-cuda12x",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "git": "GitPython",
    "google.generativeai": "google-generativeai",
    "google.genai": "google-genai",
    "googleapiclient": "google-api-python-client",
    "IPython": "ipython",
    "jwt": "PyJWT",
    "lightning_fabric": "lightning",
    "Levenshtein": "levenshtein",
    "magic": "python-magic",
    "matplotlib_inline": "matplotlib-inline",
    "mpl_toolkits": "matplotlib",
    "OpenGL": "PyOpenGL",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "psycopg2": "psycopg2-binary",
    "pylab": "matplotlib",
    "pynvml": "nvidia-ml-py",
    "pytorch_lightning": "pytorch-lightning",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "snappy": "python-snappy",
    "tensorflow_datasets": "tensorflow-datasets",
    "tf_keras": "tf-keras",
    "umap": "umap-learn",
    "wx": "wxPython",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}


def distribution_name(module: str) -> str:
    """Return the name by which pip knows what a module comes from.

    `module` is a name as imported, with or without what is below it.

    >>> distribution_name("sklearn"), distribution_name("PIL.Image"), distribution_name("torch")
    ('scikit-learn', 'pillow', 'torch')
    """
    first = module.partition(".")[0]
    return _DISTRIBUTIONS.get(module) or _DISTRIBUTIONS.get(first, first)


def canonicalize_name(name: str) -> str:
    """Return a distribution's name as package lists compare it.

    `name` may be spelled in any way.

    >>> canonicalize_name("Scikit_Learn")
    'scikit-learn'
    """
    return re.sub(r"[-_.]{1,99}", "-", name).lower()
