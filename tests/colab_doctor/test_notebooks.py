"""Old notebooks, read as code: what is found, what is left alone, and whether the table tells the truth."""

import importlib
import itertools
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import colab_doctor
from colab_doctor.__main__ import main
from colab_doctor.notebook import cells, removed_apis

ROOT = Path(__file__).parents[2]


def notebook(*sources, **metadata):
    code = [{"cell_type": "code", "source": source} for source in sources]
    return {"metadata": metadata, "cells": [{"cell_type": "markdown", "source": "x"}, *code]}


def found(*sources):
    """(row, line, code) of each retired thing."""
    read = cells.cells(notebook(*sources))
    return [(place.row.id, place.line, place.code) for place in removed_apis.find(read)]


def ids(*sources):
    return [row for row, _, _ in found(*sources)]


OLD = {
    "import tensorflow as tf\nwith tf.Session() as s: pass": ["tensorflow-1"],
    "from tensorflow import Session as S": ["tensorflow-1"],
    "tf.contrib.layers.flatten(x)": ["tensorflow-contrib"],
    "tf.logging.set_verbosity(tf.logging.ERROR)": ["tensorflow-1"],
    "%tensorflow_version 1.x": ["tensorflow-version-1"],
    "try:\n  # %tensorflow_version is Colab's\n  %tensorflow_version 2.x\nexcept Exception:\n  pass":
    ["tensorflow-version-2"],
    "address = 'grpc://' + os.environ['COLAB_TPU_ADDR']": ["tpu-address"],
    "if 'COLAB_TPU_ADDR' not in os.environ:\n  print('no TPU')": ["tpu-address"],
    "r = tf.distribute.cluster_resolver.TPUClusterResolver()": ["tpu-resolver"],
    "tf.config.experimental_connect_to_cluster(r)": ["tpu-connect"],
    "s = tf.distribute.experimental.TPUStrategy(r)": ["tpu-strategy"],
    "from jax.tools.colab_tpu import setup_tpu": ["tpu-address"],
    "r = tf.distribute.cluster_resolver.TPUClusterResolver(tpu='grpc://' + a)": ["tpu-resolver"],
    "try:\n  r = tf.distribute.cluster_resolver.TPUClusterResolver()\nexcept ValueError:\n  r = None":
    ["tpu-resolver"],
    "!curl https://x/pytorch-xla-env-setup.py -o e.py": ["torch-xla-setup"],
    "xm.xrt_world_size()": ["torch-xla-old"],
    "from torch.cuda.amp import autocast, GradScaler": ["torch-cuda-amp"],
    "from apex import amp": ["apex"],
    "from keras.layers.core import Dense": ["keras-2"],
    "from tensorflow.keras.layers.experimental.preprocessing import Rescaling": ["keras-2"],
    "from keras.preprocessing.image import ImageDataGenerator": ["keras-alone"],
    "model.fit_generator(data)": ["keras-2"],
    "from keras.optimizers import Adam\no = Adam(lr=1e-3)": ["keras-lr"],
    "import pytorch_lightning as pl\npl.Trainer(\n  gpus=1,\n  max_epochs=3)": ["lightning-arguments"],
    "def training_epoch_end(self, outputs): pass": ["lightning-hooks"],
    "jax.tree_map(f, x)": ["jax-tree"],
    "from jax.ops import index_update": ["jax-ops"],
    "np.zeros(3, dtype=np.float)": ["numpy-aliases"],
    "import numpy as onp\nonp.float_(1)": ["numpy-2"],
    "!pip install tensorflow==1.15 torch==1.4.0": ["old-pin"],
    "%pip install -q 'numpy<2'": ["old-pin"],
    "!pip install https://x/torch_scatter-2.0-cp37-cp37m-linux_x86_64.whl": ["old-pin"],
    "!pip install tensorflow-gpu": ["tensorflow-gpu"],
    "%%bash\napt-get install cuda-9-2": ["old-cuda"],
    'print("%s"\n      % tf.Session())': ["tensorflow-1"],
    'x = "%s" \\\n    % tf.Session()': ["tensorflow-1"],
    "if conversion and torch.cuda.is_available():\n  x = np.float(1)": ["numpy-aliases"],
    'print("%s" % tf.Session())': ["tensorflow-1"],
    "f(a[0], # (\n  b)\n!pip install torch==1.4.0": ["old-pin"],
    "print 'hello'\nimport imp": ["python-gone", "python-2"],
    "from transformers import (\n  AutoModel,\n  AdamW,\n)": ["transformers-4"],
    # whose function it is: the library's own, or one that passes the argument on
    "from peft import AutoPeftModelForCausalLM as A\nA.from_pretrained(x, load_in_8bit=True)":
    ["transformers-5"],
    "SomeModel.from_pretrained(x, load_in_8bit=True)": ["transformers-5"],
    # an older release counts where it is old enough and can be installed
    "!pip install transformers==5.1\nfrom transformers import Trainer\nTrainer(tokenizer=t)":
    ["transformers-5"],
    "!pip install transformers==4.53.0\nfrom transformers import AdamW": ["transformers-4"],
    "!pip install 'tensorflow==2.15'\nm.fit_generator(d)": ["keras-2", "old-pin"],
    # what a call was given
    "from keras.callbacks import ModelCheckpoint as C\nC('best.hdf5', save_best_only=True)":
    ["keras-files"],
    "n = 'w.h5'\ntf.keras.callbacks.ModelCheckpoint(n, save_weights_only=True)": ["keras-files"],
    "net = tf.keras.Model(a, b)\nnet.load_weights(os.path.join(d, 'cp-1'))": ["keras-files"],
    "m = keras.models.load_model(f'{name}/net')": ["keras-files"],
    "m.compile('sgd', 'mse', metrics='mae')": ["keras-files"],
    "from keras.layers import RandomWidth": ["keras-alone"],
    "tf.keras.utils.OrderedEnqueuer(s)": ["keras-2"],
    "from datasets import load_dataset\nx = load_dataset('c4', trust_remote_code=True)": ["datasets-scripts"],
    "!ls /usr/local/lib/python3.12/dist-packages/a": ["old-python-path"],
}  # fmt: skip


@pytest.mark.parametrize("source", OLD)
def test_what_is_gone_is_found(source):
    assert sorted(ids(source)) == sorted(OLD[source])


CURRENT = [
    "# os.environ['COLAB_TPU_ADDR'], tf.Session()",
    "print('tf.Session is gone, and COLAB_TPU_ADDR too')",
    "if os.environ.get('TPU_NAME'): connect()",
    "if 'COLAB_TPU_ADDR' in os.environ:\n  import jax.tools.colab_tpu\n  jax.tools.colab_tpu.setup_tpu()",
    "try:\n  from keras.layers.merge import add\nexcept ImportError:\n  from keras.layers import add",
    "if hasattr(jax, 'tree_map'):\n  jax.tree_map(f, x)",
    "if tf.__version__ < '2':\n  tf.Session()",
    "import tensorflow.compat.v1 as tf\ntf.Session()\ntf.placeholder(tf.float32)",
    "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)",
    "tf.distribute.cluster_resolver.TPUClusterResolver(tpu='local')",
    "from mine import Session\nSession()",
    "x = df.append\nclass np: float = 1",
    "%pip install torch==2.11.0 'numpy>=2' tensorflow==2.20.*",
    "%%html\n<b>tf.Session()</b>",
    'def f():\n  """Needs\n  !pip install torch==1.4.0\n  """',
    "text = '''\n%tensorflow_version 1.x\n'''",
    "!ls\n%matplotlib inline\nx = !pwd",
    "from unsloth import FastVisionModel as F\nF.from_pretrained(x, load_in_8bit=True)",
    "from other import Trainer\nTrainer(tokenizer=t)\nfrom paddle.nn import Conv2D\nConv2D(init=1)",
    "import unsloth\nfrom trl import SFTTrainer\nSFTTrainer(m, tokenizer=t, max_seq_length=9)",
    "!uv pip install 'transformers<5'\nfrom transformers import Trainer, TFBertModel\nTrainer(tokenizer=t)",
    "!pip install transformers==4.45.1\nfrom transformers import AdamW",
    "%env TF_USE_LEGACY_KERAS=1\ntf.keras.optimizers.Adam(lr=1)\nm.fit_generator(d)\nm.save_weights('x')",
    "os.environ.setdefault('TF_USE_LEGACY_KERAS', '1')\nfrom tensorflow.keras.layers import DenseFeatures",
    "if False:\n  AutoModel.from_pretrained(x, load_in_4bit=True)",
    "m = tf.keras.Model(a, b)\nm.save('a.keras')\nm.save_weights('a.weights.h5')\nim.save('folder')",
    "tf.keras.callbacks.ModelCheckpoint(path)\nm.compile('sgd', 'mse', metrics=['mae'])",
    "from scipy.spatial.transform import Rotation as R\nR.from_euler('z', 90).as_matrix()",
    "torch.multiprocessing.spawn(f, nprocs=2)",
    "!pip install segmentation-models-pytorch",
    "!conda install -c pytorch faiss-gpu",
    "!python setup.py install",
    "%%bash\n# pip install tensorflow-gpu==1.15",
    "!pip install tqdm  # was tensorflow-gpu==1.15",
    "!pip uninstall -y tensorflow-addons",
    "!ls /usr/local/cuda-13.0/lib64",
    "!pip install 'tensorflow~=2.15' 'numpy~=2.0' 'torch==2.*'",
    "!pip install 'transformers>=4.40,<5'\nTrainer(model, tokenizer=t)",
    "!pip install git+https://github.com/huggingface/transformers@v4.49.0\nTrainer(model, tokenizer=t)",
    "class Agent:\n    def predict_classes(self, x): return x\nAgent().predict_classes(1)",
    "import tensorflow as tf\nkeras = tf.keras\nkeras.backend.mean(x)",
    "kind = np.bool8 if hasattr(np, 'bool8') else np.bool_",
    "with contextlib.suppress(ImportError):\n    import torchtext",
    "np.float = float\nx = np.float(3)",
    "f = lambda x: g(x, *a, **b)(lambda: 1)",
    "",
]


@pytest.mark.parametrize("source", CURRENT)
def test_what_is_current_guarded_or_no_code_is_left_alone(source):
    assert ids(source) == []


def test_keras_2_switched_on_is_not_keras_alone():
    code = "%env TF_USE_LEGACY_KERAS=1\nfrom keras.layers import DenseFeatures"
    assert ids(code) == ["keras-2"] and ids("# TF_USE_LEGACY_KERAS=1\nm.fit_generator(d)")


def test_a_name_is_told_once_with_its_cells_and_its_own_line():
    [place] = removed_apis.find(
        cells.cells(notebook("x = 1\ny = np.float(x)", "np.float(2)", "np.int_"))
    )
    assert (place.cell, place.line, place.cells, place.code) == (2, 2, (3,), "y = np.float(x)")
    [(_, line, code)] = found("import pytorch_lightning as pl\npl.Trainer(\n  gpus=1,\n)")
    assert (line, code) == (3, "gpus=1,")


def test_what_is_no_python_does_not_hide_the_rest():
    assert ids("a = <YOUR CODE>\nnp.float(1)") == ["numpy-aliases"]
    assert ids("if x:\n  %time np.float(1)\n  !ls\n  y = 2\nnp.int(1)") == ["numpy-aliases"]
    [cell] = cells.cells(notebook("a = <YOUR CODE>"))
    assert cell.unread == "a = <YOUR CODE>" and cell.trees == ()


@pytest.mark.slow  # it imports all frameworks
@pytest.mark.parametrize("name", ["names", "below", "exactly"])
def test_what_is_called_gone_is_gone_here(name):
    """Each address is looked up in the packages that are installed."""
    still = []
    for row in removed_apis.rows():
        if (
            row.effect != "fails"
            or row.stub
            or (row.id == "python-gone" and sys.version_info < (3, 12))
        ):
            continue
        for address in getattr(row, name):
            also = address.startswith("keras.") and name != "exactly"
            both = (address, f"tensorflow.{address}") if also else (address,)
            still += [(row.id, one) for one in both if _exists(one)]
    assert still == []


def _exists(address):
    first, *rest = address.split(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            here = importlib.import_module(first)
            for count, part in enumerate(rest, 2):
                try:
                    here = getattr(here, part)
                except AttributeError:
                    here = importlib.import_module(".".join([first, *rest][:count]))
        except Exception:  # not installed, or gone: both are no
            return False
    return True


def test_every_row_is_whole_and_every_pin_has_a_wheel_to_go_to():
    for row in removed_apis.rows():
        assert row.effect in ("fails", "misleads", "warns") and row.source.startswith("https://")
        assert row.why.endswith(".") and row.instead
        fields = ("exactly", *removed_apis.BY_NAME, *removed_apis.BY_PATTERN)
        assert any(getattr(row, one) for one in fields) or row.id == "old-pin", row.id
    assert len({row.id for row in removed_apis.rows()}) == len(removed_apis.rows())


def test_imports_that_colab_does_not_bring():
    [finding] = colab_doctor.explain_notebook(
        notebook("import torch, cv2\nfrom kaggle_datasets import K")
    )
    assert (
        finding.id == "not-on-colab"
        and finding.observation == "Cell 2, line 2: import kaggle_datasets"
    )
    assert colab_doctor.explain_notebook(notebook("!pip install x\nimport kaggle_datasets")) == ()
    for noise in ("> /dev/null 2>&1", "--index-url https://example.org/simple"):
        told = colab_doctor.explain_notebook(
            notebook(f"!pip install numpy {noise}\nopen('b.zip')\nimport nowhere")
        )
        assert [finding.id for finding in told] == ["not-on-colab"], noise
    assert (
        colab_doctor.explain_notebook(
            notebook("try:\n  import kaggle_datasets\nexcept ImportError:\n  0")
        )
        == ()
    )


def test_a_notebook_for_a_tpu_that_uses_tensorflow():
    [finding] = colab_doctor.explain_notebook(
        notebook("import tensorflow as tf", accelerator="TPU")
    )
    assert finding.id == "tpu-notebook-tensorflow"
    assert (
        colab_doctor.explain_notebook(notebook("import tensorflow as tf", accelerator="GPU")) == ()
    )


@pytest.fixture
def files(tmp_path):
    old, new = tmp_path / "old.ipynb", tmp_path / "new.ipynb"
    old.write_text(json.dumps(notebook("tf.Session()")))
    new.write_text(json.dumps(notebook("import torch")))
    return old, new


def test_several_notebooks_in_a_terminal(files, capsys):
    old, new = files
    assert main(["--notebook", str(new)]) == 0
    assert main(["--notebook", str(old), str(new)]) == 1
    told = capsys.readouterr().out
    assert "\n      Cell 2, line 1: tf.Session()" in told and f"{new}: nothing found" in told
    assert "`tf.compat.v1.Session` for `tensorflow.Session`" in told


def test_a_file_that_cannot_be_read_does_not_hide_the_others(files, tmp_path, capsys):
    broken = tmp_path / "broken.ipynb"
    broken.write_text('{"cells": [\n{"cell')
    for how in ([], ["--json"], ["--github"]):
        assert main([*how, "--notebook", str(broken), str(files[0])]) == 2
        told = capsys.readouterr()
        assert "tf.Session" in told.out and "invalid JSON at line 2" in told.out + told.err


def test_versions_are_told_with_the_first_that_fits():
    [finding] = colab_doctor.explain_notebook(
        notebook("!pip install tensorflow==1.15 numpy==1.16.4 x==1")
    )
    assert "tensorflow: the first for Python 3.13 is 2.20.0" in finding.fix
    assert "numpy: the first" in finding.fix and "x: " not in finding.fix


def test_a_module_beside_the_notebook_is_not_missing(tmp_path, capsys):
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(notebook("import helpers_of_mine")))
    assert main(["--notebook", str(path)]) == 1
    assert "A file of your own" in capsys.readouterr().out
    (tmp_path / "helpers_of_mine.py").write_text("")
    assert main(["--notebook", str(path)]) == 0


def test_what_only_warns_does_not_fail(tmp_path, capsys):
    path = tmp_path / "warns.ipynb"
    path.write_text(json.dumps(notebook("torch.cuda.amp.autocast()")))
    assert main(["--notebook", str(path)]) == 0
    assert "good to know" in capsys.readouterr().out


def test_annotations_and_data(files, capsys):
    old, new = files
    assert main(["--github", "--notebook", str(old), str(new)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"::error file={old},title=Cell 2%2C line 1%3A tf.Session()::")
    assert main(["--json", "--notebook", str(old), str(new)]) == 1
    data = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in data[str(old)]] == ["retired"] and data[str(new)] == []


def test_the_action_runs_as_it_stands(files):
    """The step that looks, in a shell, with the helper of this tree."""
    import yaml

    action = yaml.safe_load((ROOT / ".github/actions/runs-on-colab/action.yml").read_text("utf-8"))
    step = next(one["run"] for one in action["runs"]["steps"] if one.get("name") == "Look")
    folder = files[0].parent
    paths = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}

    def look(patterns: str) -> subprocess.CompletedProcess[str]:
        env = {**paths, "NOTEBOOKS": patterns}
        return subprocess.run(
            ["bash", "-c", step], cwd=folder, env=env, capture_output=True, text=True
        )

    done, none = look("**/*.ipynb"), look("no/*.ipynb")
    assert done.returncode == 1 and "::error file=old.ipynb" in done.stdout, done.stderr
    assert none.returncode == 2 and "No notebook fits" in none.stdout


HOSTILE = {
    "nested": "(" * 100_000,
    "names": "a." * 300_000 + "b",
    "pip": "!pip install " + "torch==" * 100_000,
    "magics": "%" * 500_000,
    "lines": "\n".join(itertools.repeat("x = <y>", 60_000)),
    "string": "x = '" + "/python2.7" * 90_000 + "'",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.timeout(60)  # what grows with the square of its length takes hours
def test_a_hostile_cell_is_read_to_its_end(name):
    colab_doctor.explain_notebook(notebook(HOSTILE[name]))


def test_pins_count_by_the_highest_version_that_they_allow():
    assert ids("!pip install 'tensorflow~=2.15.0'") == ["old-pin"]
    assert ids("xmp.spawn(f, nprocs=8)")[:1] == ["torch-xla-old"]
