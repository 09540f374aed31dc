"""Devices and processes of the JAX engine, as options ask for them."""

import ctypes
import os
import signal

import pytest

from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.registry import select_engine
from albert_tf.errors import InputError
from tests.conftest import refusal

pytest.importorskip("jax", reason="JAX is not installed (the extra `jax`)")

from albert_tf.engines.jax import devices


@pytest.fixture
def on_jax(monkeypatch):
    """As in a process in which Keras runs on JAX."""
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tpu_name": "albert"}, "`tpu_name`=albert: `engine`=jax runs on the TPU VMs themselves"),
        ({"tpu": "albert"}, "`tpu`=albert: `engine`=jax runs on the TPU VMs themselves"),
        ({"master": "grpc://host"}, "`master`=grpc://host: is for `engine`=tensorflow"),
        ({"jit_compile": False}, "`jit_compile`=False: `engine`=jax compiles every step"),
        ({"strategy": "ring"}, "`strategy`=ring: must be one of auto, one_device, mirrored"),
        ({"strategy": "tpu", "use_tpu": False}, "`strategy`=tpu: contradicts `use_tpu`=False"),
        ({"strategy": "mirrored", "use_tpu": True}, "`strategy`=mirrored: contradicts `use_tpu`"),
        ({"strategy": "multi_worker", "num_replicas": 2}, "`num_replicas`=2: is for `strategy`"),
        ({"num_processes": 2}, "`coordinator_address`: is missing"),
        ({"process_id": 0}, "`coordinator_address`: is missing"),
        (
            {"coordinator_address": "host", "num_processes": 2, "process_id": 0},
            "`coordinator_address`=host: must be host:port",
        ),
        (
            {"coordinator_address": "host:1", "num_processes": 0, "process_id": 0},
            "`num_processes`=0: must be at least 1",
        ),
        (
            {"coordinator_address": "host:1", "num_processes": 2, "process_id": 2},
            "`process_id`=2: must be from 0 to 1",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(on_jax, options, message):
    options = DeviceOptions(engine="jax", **options)
    assert refusal(devices.create_devices, options).startswith(message)


@pytest.mark.parametrize("ignored", [False, True], ids=["terminal", "nohup"])
def test_the_end_of_the_terminal_is_heeded_as_before(on_jax, monkeypatch, ignored):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p

    def as_libtpu_does(options):
        libc.signal(signal.SIGHUP, 1)  # SIG_IGN
        return devices.jax.local_devices()[:1], devices.JaxWorkers()

    monkeypatch.setitem(devices.STRATEGIES, "auto", as_libtpu_does)
    try:
        devices.create_devices(DeviceOptions(engine="jax"))
        assert libc.signal(signal.SIGHUP, 0) == (1 if ignored else None)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_process_is_alone_unless_it_is_told_of_others(monkeypatch):
    for name in ("SLURM_NTASKS", "SLURM_STEP_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(devices.hardware, "tpu_chips", list)
    assert not devices._runs_with_others(DeviceOptions())
    assert devices._runs_with_others(DeviceOptions(process_id=0))
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert not devices._runs_with_others(DeviceOptions())  # a shell that salloc has opened
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[1-4]")
    assert devices._runs_with_others(DeviceOptions())
    monkeypatch.undo()
    monkeypatch.setattr(devices.hardware, "tpu_chips", lambda: ["v5e"] * 4)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    assert devices._runs_with_others(DeviceOptions())  # how many hosts there are, Cloud knows
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert not devices._runs_with_others(DeviceOptions())


def test_what_is_printed_while_others_join_is_shown(monkeypatch, capfd):
    monkeypatch.setattr(devices, "_join", lambda options: os.write(2, b"waiting for others"))
    devices.STRATEGIES["multi_worker"](DeviceOptions())
    assert capfd.readouterr().err == "waiting for others"


def test_another_backend_of_keras_is_refused():
    with pytest.raises(InputError, match="^KERAS_BACKEND=tensorflow: `engine`=jax needs the back"):
        devices.create_devices(DeviceOptions(engine="jax"))
    with pytest.raises(InputError, match="^`engine`=jax: Keras is already loaded with the backend"):
        select_engine("jax")


def test_an_engine_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setattr("albert_tf.engines.registry._is_installed", lambda package: False)
    with pytest.raises(InputError, match="^`engine`=jax: jax is not installed; .* jax, jax-cuda"):
        select_engine("jax")


@pytest.mark.parametrize(
    ("message", "is_lost"),
    [
        ("UNKNOWN: Gloo all-reduce failed: Connection closed by peer [127.0.0.1]:1234", True),
        ("UNAVAILABLE: The following tasks are unhealthy: /job:jax_worker/task:1", True),
        ("INVALID_ARGUMENT: Mismatched shapes", False),
    ],
)
def test_errors_about_lost_processes_are_recognized(message, is_lost):
    lost = devices.JaxWorkers(["process 0", "process 1"]).lost_by(
        devices.jax.errors.JaxRuntimeError(message)
    )
    assert (lost is not None) == is_lost
    if "task:1" in message:
        assert lost == {1}
