"""Compiles training steps in processes of their own, and keeps the programs that they share."""

import dataclasses
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import weakref

from albert_tf.children import child
from albert_tf.errors import InputError
from albert_tf.files import read_json, to_json, write_text
from albert_tf.hardware import Slice
from albert_tf.preflight.bounds import Compiled
from albert_tf.preflight.epochs import has_rows, manifests
from albert_tf.preflight.gpus import Gpus
from albert_tf.preflight.options import PreflightOptions, Request
from albert_tf.terminal import ProgressLine, duration
from albert_tf.training.options import PretrainingOptions


def check_installed(where: Slice | Gpus | None) -> None:
    """Raise InputError if JAX or the compiler for the devices is not installed."""
    on_gpus = isinstance(where, Gpus)
    extras = "jax,preflight-gpu" if on_gpus else "cpu,preflight"
    for package in ("jax", "jax_cuda12_plugin" if on_gpus else "libtpu"):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"the preflight requires {package}, which is not installed: "
                f"pip install 'albert-tf[{extras}]'"
            )


class Compiler:
    """Compiles training steps for slices or GPUs, each in separate processes."""

    def __init__(self, options: PreflightOptions):
        self.options = options
        self.line = ProgressLine()
        self._folder = tempfile.mkdtemp(prefix="preflight-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._has_rows = has_rows(manifests(options))

    def compile(self, where: Slice | Gpus, batch: int, micro: int, remat: bool) -> Compiled:
        """Compile the training step of one replica of the devices, of a global batch."""
        sizes = {"train_batch_size": batch, "batch_size_warmup": ()}  # the largest counts
        asked = self.options.pretraining(micro, remat=remat, **sizes)
        # JAX's kernels, which TensorFlow's programs may contain, are those of newer TPUs.
        fuses = isinstance(where, Slice) and "jax" in where.data.engines
        if self.options.engine == "tensorflow" and not fuses:
            asked = dataclasses.replace(asked, attention="plain")
        what = f"{where.name}, micro-batch {micro}{', remat' if remat else ''}"
        request = self._request(where.replicas, asked)
        trips = batch // where.replicas // micro
        result = os.path.join(self._folder, "result")
        if self.options.engine == "jax":
            module, program = "jax_compiling", request
        else:
            module, program = "compiling", self._program(request, what)
        arguments = [program, where.name, str(trips), result]
        if error := self._run(module, arguments, f"{what}: compiling"):
            return Compiled(False, error=error)
        return read_json(result, Compiled)

    def _request(self, replicas: int, asked: PretrainingOptions) -> str:
        request = to_json(dataclasses.asdict(Request(replicas, asked, self._has_rows)))
        digest = hashlib.sha256(request.encode()).hexdigest()  # the same file for the same request
        path = os.path.join(self._folder, f"{digest}.json")
        write_text(path, request)
        return path

    def _program(self, request: str, what: str) -> str:
        """Return the file of a program of TensorFlow, which slices of as many devices share."""
        program = f"{request}.program"
        if os.path.exists(program):
            return program
        if error := self._run("lowering", [request, program], f"{what}: building"):
            raise InputError(f"{what}: the training step cannot be built ({error})")
        return program

    def _run(self, module: str, arguments: list[str], what: str) -> str | None:
        """Run a module in a separate process; return a line on why it failed, None if not."""
        seconds = 60 * self.options.compile_minutes
        # No framework must use GPUs, and the user's choice of a Keras backend does not apply.
        engine = self.options.engine
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": engine}
        environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        started = time.monotonic()
        with tempfile.TemporaryFile("w+") as errors:
            with child(
                [sys.executable, "-m", f"albert_tf.preflight.{module}", *arguments],
                env=environment,
                stdout=errors,
                stderr=subprocess.STDOUT,
            ) as process:
                try:
                    while process.poll() is None:
                        past = time.monotonic() - started
                        if past > seconds:
                            process.kill()
                            return f"not done after {duration(past)} (--compile_minutes)"
                        self.line.update(what, duration(past))
                        time.sleep(0.2)
                finally:
                    self.line.clear()
            if process.returncode == 0:
                return None
            errors.seek(0)
            lines = [line.strip() for line in errors if line.strip()]
        if process.returncode < 0:
            return f"ended by signal {-process.returncode}; this machine may be out of memory"
        return lines[-1] if lines else f"ended with code {process.returncode}"
