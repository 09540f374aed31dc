"""A process that saves checkpoints of the JAX engine: NAME=VALUE, ..."""

import sys
import warnings

warnings.simplefilter("error")

from albert_tf.checkpoints import OrbaxFolder  # noqa: E402
from albert_tf.checkpoints.saving import Checkpoints  # noqa: E402
from albert_tf.engines.workers import Workers  # noqa: E402
from tests.support.checkpoints import jax  # noqa: E402

options = dict(argument.split("=", 1) for argument in sys.argv[1:])
kind = jax()
state = kind.state(0)
folder = OrbaxFolder(options["folder"])
with Checkpoints(folder, state, Workers(), int(options.get("keep", 5))) as checkpoints:
    for step in map(int, options["steps"].split(",")):
        state.tree = kind.state(step).tree
        checkpoints.save()
        checkpoints.wait()
        print(f"saved {step}", flush=True)
if "tensorflow" in sys.modules:
    sys.exit("TensorFlow was imported")
