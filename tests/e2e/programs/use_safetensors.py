"""safetensors, which maps the file: whole, one tensor, a slice; through torch and numpy."""
import os

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import safe_open
from said import main, said


def make(folder):
    torch.manual_seed(1)
    tensors = {"layer.%d" % number: torch.randn(40 + number, 3000) for number in range(12)}
    safetensors.torch.save_file(tensors, os.path.join(folder, "a.safetensors"), {"format": "pt"})


def use(folder):
    path = os.path.join(folder, "a.safetensors")
    loaded = safetensors.torch.load_file(path)
    said("torch", *[loaded[name].numpy() for name in sorted(loaded)])
    loaded = safetensors.numpy.load_file(path)
    said("numpy", *[loaded[name] for name in sorted(loaded)])
    for framework in ("pt", "np"):
        with safe_open(path, framework) as file:
            said("names", sorted(file.keys()), file.metadata())
            said("one", np.ascontiguousarray(file.get_tensor("layer.11")))
            said("slice", np.ascontiguousarray(file.get_slice("layer.3")[5:9, 100:200]))
    with open(path, "rb") as file:
        said("bytes", safetensors.torch.load(file.read())["layer.5"].numpy())


main(make, use)
