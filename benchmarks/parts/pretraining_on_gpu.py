"""A pretraining step on one GPU, of the JAX engine and of PyTorch; runs with --only.

Both are in bfloat16, on sequences without padding. The least time is that of the matrix products
by formula at the rate of a large product, which is as fast as this GPU gets. MFU is the number of
those operations per second over the peak of the GPU. Memory is the peak of the framework's
allocator on the GPU. Needs jax, keras, torch and transformers, and no TensorFlow.

So far nothing has been measured on a GPU. On a CPU, --quick shows that it works.
"""

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.hardware import gpu_peak
from benchmarks.comparison import Suite, products
from benchmarks.measurements import Result, Table, comparison_table
from benchmarks.parts.pretraining_step import ON_JAX, TINY, cases, compare_each

REFERENCE = f"{ON_JAX}, fused attention"
NAMES = (ON_JAX, REFERENCE, "Hugging Face", "Hugging Face, compiled")
SIZES = ("base", "large", "xlarge", "xxlarge")


def run(suite: Suite) -> Result:
    """Return sequences per second, shares of the GPU's peak, compile times and memory."""
    sizes, shape, product = {name: AlbertConfig.preset(name) for name in SIZES}, (16, 512), 8192
    if suite.quick:
        sizes, shape, product = {"tiny": TINY}, (2, 32), 64
    works = [cases(size, config, *shape, "bfloat16", NAMES) for size, config in sizes.items()]
    bound, left_out = products("bfloat16", (product,) * 3, "matrix products on JAX"), {}
    measured = compare_each(suite, "pretraining_on_gpu", works, left_out, bound)
    if not measured:
        raise InputError(f"no implementation could run: {'; '.join(left_out.values())}")
    if len({each.details["device"]["platform"] for each in measured}) > 1:
        raise InputError("some ran on the CPU: install what all of them need for the GPU")
    device = measured[0].details["device"]
    peak = gpu_peak(device["name"]) if device["platform"] == "gpu" else None
    rows = []
    for each in measured:
        flops = each.rate.median * each.details["flops_per_sequence"]
        mfu = f"{flops / peak / 1e12:.1%}" if peak else ""
        compiling = f"{each.details['compile_seconds']:.1f}"
        rows.append((each.work, each.implementation, mfu, compiling))
    title = f"{device['name']}, {f'{peak:g} TFLOP/s at most' if peak else 'peak unknown'}"
    tables = [
        comparison_table(title, measured, REFERENCE),
        Table("", ("work", "implementation", "MFU", "compilation, s"), rows),
    ]
    return Result("A pretraining step on one GPU", measured, tables, left_out=left_out)
