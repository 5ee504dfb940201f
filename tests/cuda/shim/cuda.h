// In place of NVIDIA's cuda.h: everything is in the shim.
#pragma once
#include "cuda_shim.h"
