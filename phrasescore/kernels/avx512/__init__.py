"""Kernels written with vector instructions, for processors with AVX-512."""
