// Kernels that follow each other in one stream and start early: a kernel begins while the one before it still runs, loads
// its weights, and waits before it reads or writes anything else. Consecutive weights lie in shared memory by then.
__device__ __forceinline__ void allow_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
