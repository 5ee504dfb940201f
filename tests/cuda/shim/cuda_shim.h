// CUDA C++ compiled for the processor, so that kernels run in tests where no GPU is.
//
// Included before a source by the compiler (`g++ -include cuda_shim.h -x c++ kernels.cu`); the source is not changed. Two kinds of
// sources are compiled through it: our own (host/ops/cuda/*.cu) and those of the crate candle-kernels.
//
// Parts:
//   qualifiers.h    __global__, __device__, __shared__ …
//   block.h         the threads of a block, as fibers, and what they wait at: __syncthreads and the like
//   warp.h          exchanges within a warp: shuffles, votes
//   float_types.h   __half, __nv_bfloat16, __nv_fp8_e4m3
//   intrinsics.h    arithmetic, bits, atomics
//   tensor_cores.h  what our own sources have in PTX: products of tiles, and copies past registers
//   launch.h        a kernel by its name, launched with the driver's arguments
// The other headers here have the names of NVIDIA's and bring in what is above.
//
// What is as on a device: blocks don't see one another's shared memory; a thread that waits at a barrier waits for all that have not
// ended; shared memory of a size given at the launch begins as NaN. What is stricter: a barrier that some threads never reach and an
// `assert` that fails end the launch with an error; a write beyond the shared memory asked for does too. What isn't: blocks run one after
// another and so do threads between barriers, which hides races. `SCONCE_CUDA_ORDER=reverse` runs both from last to first: a kernel whose
// results then differ reads what nothing made it wait for.
#pragma once

#include "block.h"
#include "float_types.h"
#include "intrinsics.h"
#include "launch.h"
#include "qualifiers.h"
#include "tensor_cores.h"
#include "warp.h"
