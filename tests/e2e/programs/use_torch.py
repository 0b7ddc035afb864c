"""Checkpoints: torch.load of both formats, by name and by file, mapped where this torch can; TorchScript; from_file."""
import inspect
import os

import torch
from said import main, said


class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(300000, dtype=torch.float32))

    def forward(self, x):
        return x + self.weight.sum()


def state(tensors):
    return [(name, tensors[name].numpy()) for name in sorted(tensors)]


def say(name, tensors):
    for key, array in state(tensors):
        said("%s %s %s" % (name, key, array.shape), array)


def make(folder):
    torch.manual_seed(1)
    tensors = {"a": torch.randn(500, 700), "b": torch.randn(900000), "c": torch.arange(10)}
    torch.save(tensors, os.path.join(folder, "zip.pt"))
    torch.save(tensors, os.path.join(folder, "legacy.pt"), _use_new_zipfile_serialization=False)
    torch.jit.script(Sum()).save(os.path.join(folder, "script.pt"))
    tensors["b"].numpy().tofile(os.path.join(folder, "raw.f32"))


def use(folder):
    torch.set_num_threads(1)
    for name in ("zip.pt", "legacy.pt"):
        path = os.path.join(folder, name)
        say("by name " + name, torch.load(path))
        with open(path, "rb") as file:
            say("by file " + name, torch.load(file, map_location="cpu"))
        with open(path, "rb", buffering=0) as file:
            say("unbuffered " + name, torch.load(file))
    if "mmap" in inspect.signature(torch.load).parameters:
        say("mapped", torch.load(os.path.join(folder, "zip.pt"), mmap=True))
    script = torch.jit.load(os.path.join(folder, "script.pt"))
    said("script", script.weight.detach().numpy())
    raw = os.path.join(folder, "raw.f32")
    said("from_file", torch.from_file(raw, size=900000).numpy())
    said("storage", torch.FloatTensor(torch.FloatStorage.from_file(raw, False, 900000)).numpy())


main(make, use)
