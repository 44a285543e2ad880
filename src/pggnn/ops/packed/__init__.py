"""The operation in plain PyTorch, in blocks under a memory budget: every device, and fast on the CPU."""
