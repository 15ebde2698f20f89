"""Kernels written in vector instructions, for processors with AVX-512."""
