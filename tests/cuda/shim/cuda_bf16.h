// In place of NVIDIA's cuda_bf16.h: everything is in the shim.
#pragma once
#include "cuda_shim.h"
