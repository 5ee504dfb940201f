//! cuBLASLt, which candle names but nothing here calls.

super::library! {
    // `CUBLAS_STATUS_NOT_INITIALIZED`
    unavailable: 1,
    codes: [
        cublasLtCreate, cublasLtDestroy, cublasLtEmulationDescCreate, cublasLtEmulationDescDestroy,
        cublasLtEmulationDescGetAttribute, cublasLtEmulationDescInit_internal,
        cublasLtEmulationDescSetAttribute, cublasLtGetCudartVersion, cublasLtGetProperty, cublasLtGetVersion,
        cublasLtGroupedMatrixLayoutCreate, cublasLtGroupedMatrixLayoutInit_internal,
        cublasLtHeuristicsCacheGetCapacity, cublasLtHeuristicsCacheSetCapacity, cublasLtLoggerForceDisable,
        cublasLtLoggerOpenFile, cublasLtLoggerSetCallback, cublasLtLoggerSetFile, cublasLtLoggerSetLevel,
        cublasLtLoggerSetMask, cublasLtMatmul, cublasLtMatmulAlgoCapGetAttribute, cublasLtMatmulAlgoCheck,
        cublasLtMatmulAlgoCheckForStream, cublasLtMatmulAlgoConfigGetAttribute,
        cublasLtMatmulAlgoConfigSetAttribute, cublasLtMatmulAlgoGetHeuristic,
        cublasLtMatmulAlgoGetHeuristicForStream, cublasLtMatmulAlgoGetIds, cublasLtMatmulAlgoInit,
        cublasLtMatmulDescCreate, cublasLtMatmulDescDestroy, cublasLtMatmulDescGetAttribute,
        cublasLtMatmulDescInit_internal, cublasLtMatmulDescSetAttribute, cublasLtMatmulPreferenceCreate,
        cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreferenceGetAttribute,
        cublasLtMatmulPreferenceInit_internal, cublasLtMatmulPreferenceSetAttribute, cublasLtMatrixLayoutCreate,
        cublasLtMatrixLayoutDestroy, cublasLtMatrixLayoutGetAttribute, cublasLtMatrixLayoutInit_internal,
        cublasLtMatrixLayoutSetAttribute, cublasLtMatrixTransform, cublasLtMatrixTransformDescCreate,
        cublasLtMatrixTransformDescDestroy, cublasLtMatrixTransformDescGetAttribute,
        cublasLtMatrixTransformDescInit_internal, cublasLtMatrixTransformDescSetAttribute
    ],
    texts: [
        cublasLtGetStatusName, cublasLtGetStatusString
    ],
}
