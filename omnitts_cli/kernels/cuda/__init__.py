"""CUDA C++ kernels that are compiled at run time, for what Triton cannot express: one persistent kernel."""
