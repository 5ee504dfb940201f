// In place of NVIDIA's cuda_runtime.h: everything is in the shim.
#pragma once
#include "cuda_shim.h"
