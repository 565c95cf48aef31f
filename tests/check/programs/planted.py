#!/usr/bin/env python3
"""Programs of PyTorch with one mistake, and programs without any, for `sluice check`.

    planted.py NAME       runs one
    planted.py --list     prints each name, and what is wrong with it: the kinds of findings, "clean", or "unseen" and why
"""

import sys
import time


def tensor_of_another_stream(torch):
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    x.fill_(1)
    with torch.cuda.stream(side):  # does not wait for the stream of the fill
        x.mul_(2)


def freed_to_the_cache_while_it_is_read(torch):
    """The caching allocator does not know the side stream: record_stream() is missing."""
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    out = torch.empty(1 << 20, device="cuda")
    torch.cuda.synchronize()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.mul(x, 2, out=out)
    del x
    torch.zeros(1 << 20, device="cuda")  # the same memory


def download_without_a_wait(torch):
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    pinned = torch.empty(1 << 20, pin_memory=True)
    torch.cuda.synchronize()
    x.fill_(1)
    with torch.cuda.stream(side):
        pinned.copy_(x, non_blocking=True)


def upload_without_a_wait(torch):
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    pinned = torch.zeros(1 << 20, pin_memory=True)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.copy_(pinned, non_blocking=True)
    x.mul_(2)


def training(torch):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(110):
        if step == 10:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        inputs, target = torch.randn(32, 64).cuda(), torch.randint(0, 8, (32,)).cuda()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), target).backward()
        optimizer.step()
    torch.cuda.synchronize()
    print("seconds", time.perf_counter() - begin)  # of 100 steps, for bench/check_overhead.py


def inference(torch):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.LazyLinear(10)).cuda().eval()
    with torch.no_grad():
        for _ in range(10):
            model(torch.randn(4, 3, 16, 16, device="cuda")).cpu()


def uploads_in_order(torch):
    side = torch.cuda.Stream()
    pinned = torch.zeros(1 << 20, pin_memory=True)
    with torch.cuda.stream(side):
        x = pinned.to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    x.record_stream(torch.cuda.current_stream())
    x.mul_(2)


def captured_graph(torch):
    x = torch.zeros(1 << 16, device="cuda")
    weight = torch.randn(256, 256, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        (x.view(256, 256) @ weight).relu()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (x.view(256, 256) @ weight).relu()
    for _ in range(3):
        x.fill_(1)
        graph.replay()


PROGRAMS = {
    # PyTorch's elementwise kernels get their pointers in a struct.
    "unseen: pointers in structs": [tensor_of_another_stream, freed_to_the_cache_while_it_is_read,
                                    download_without_a_wait, upload_without_a_wait],
    "clean": [training, inference, uploads_in_order, captured_graph],
}


def main(name):
    if name == "--list":
        for kind, some in PROGRAMS.items():
            for each in some:
                print(f"{each.__name__}\t{kind}")
        return 0
    chosen = [each for some in PROGRAMS.values() for each in some if each.__name__ == name]
    if not chosen:
        return 2
    import torch

    chosen[0](torch)
    torch.cuda.synchronize()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else 2)
