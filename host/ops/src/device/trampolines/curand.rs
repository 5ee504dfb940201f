//! cuRAND: candle makes a generator for each device.

super::library! {
    // `CURAND_STATUS_NOT_INITIALIZED`
    unavailable: 101,
    codes: [
        curandCreateGenerator, curandCreateGeneratorHost, curandCreatePoissonDistribution,
        curandDestroyDistribution, curandDestroyGenerator, curandGenerate, curandGenerateLogNormal,
        curandGenerateLogNormalDouble, curandGenerateLongLong, curandGenerateNormal, curandGenerateNormalDouble,
        curandGeneratePoisson, curandGeneratePoissonMethod, curandGenerateSeeds, curandGenerateUniform,
        curandGenerateUniformDouble, curandGetDirectionVectors32, curandGetDirectionVectors64,
        curandGetProperty, curandGetScrambleConstants32, curandGetScrambleConstants64, curandGetVersion,
        curandSetGeneratorOffset, curandSetGeneratorOrdering, curandSetPseudoRandomGeneratorSeed,
        curandSetQuasiRandomGeneratorDimensions, curandSetStream
    ],
    texts: [],
}
