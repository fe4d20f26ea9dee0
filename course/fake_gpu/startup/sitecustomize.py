"""With this folder on PYTHONPATH and FAKE_GPU set, an interpreter starts as that machine would."""

import os

if os.environ.get("FAKE_GPU"):
    from course import fake_gpu

    fake_gpu.install(os.environ["FAKE_GPU"])
