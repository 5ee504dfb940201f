//! NVRTC: compiles kernels at run time.

super::library! {
    // `NVRTC_ERROR_INVALID_PROGRAM`
    unavailable: 4,
    codes: [
        nvrtcAddNameExpression, nvrtcCompileProgram, nvrtcCreateProgram, nvrtcDestroyProgram,
        nvrtcGetBundledHeadersInfo, nvrtcGetCUBIN, nvrtcGetCUBINSize, nvrtcGetLTOIR, nvrtcGetLTOIRSize,
        nvrtcGetLoweredName, nvrtcGetNumSupportedArchs, nvrtcGetOptiXIR, nvrtcGetOptiXIRSize, nvrtcGetPTX,
        nvrtcGetPTXSize, nvrtcGetProgramLog, nvrtcGetProgramLogSize, nvrtcGetSupportedArchs, nvrtcGetTileIR,
        nvrtcGetTileIRSize, nvrtcInstallBundledHeaders, nvrtcRemoveBundledHeaders, nvrtcVersion
    ],
    texts: [
        nvrtcGetErrorString
    ],
}
