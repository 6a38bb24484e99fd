"""A plain PyTorch training loop: a small network, SGD, as many steps as the argument says. One JSON line at the end."""

import json
import sys
import time

import torch

STEPS = int(sys.argv[2])
torch.manual_seed(1)
device = torch.device("cuda")
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(device)
best = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(32, 64)
y = torch.randint(0, 10, (32,))
began = time.clock_gettime(time.CLOCK_MONOTONIC)
for step in range(STEPS):
    best.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    best.step()
    if step % 10 == 9:
        loss.item()  # waits, as loops do that report
torch.cuda.synchronize()
print(json.dumps({
    "steps": STEPS, "seconds": time.clock_gettime(time.CLOCK_MONOTONIC) - began, "shape": list(model(x.to(device)).shape),
    "input_unchanged": bool((x.to(device).cpu() == x).all()), "total": torch.cuda.mem_get_info()[1]}))
