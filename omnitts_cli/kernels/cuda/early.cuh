// Programmatic dependent launch: a kernel begins while the previous one of its stream still runs, loads its weights into shared
// memory, and waits before it reads or writes anything else.
__device__ __forceinline__ void allow_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
