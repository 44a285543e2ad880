"""The operation through the fused kernels: what they are called with."""
