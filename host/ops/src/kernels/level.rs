//! The processor's instruction set, detected at run time, so that one binary serves all.

use std::sync::OnceLock;

/// Vector instruction sets that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionLevel {
    /// Instructions that every processor of the architecture has.
    Baseline,
    /// AVX2 with FMA: 256 bits.
    Avx2,
    /// AVX-512: 512 bits.
    Avx512,
}

/// Environment variable with the best instruction set to be used: `baseline`, `avx2` or `avx512`.
///
/// For measurements. Loops give the same bits with `avx2` and `avx512`, and so does tiled matrix multiplication, which
/// needs at least `avx2`; `baseline` rounds products before it adds to them. All other matrix multiplications choose
/// their instructions themselves.
pub const VARIABLE: &str = "SCONCE_INSTRUCTIONS";

static LEVEL: OnceLock<InstructionLevel> = OnceLock::new();

/// The best instruction set that the processor has and [`VARIABLE`] allows.
pub fn level() -> InstructionLevel {
    *LEVEL.get_or_init(best)
}

/// The best instruction set that [`level`] could give, without deciding on one.
pub fn best() -> InstructionLevel {
    let allowed = match std::env::var(VARIABLE).as_deref() {
        Ok("baseline") => InstructionLevel::Baseline,
        Ok("avx2") => InstructionLevel::Avx2,
        _ => InstructionLevel::Avx512,
    };
    allowed.min(found())
}

/// Whether sums of products of pairs of `bf16` are one instruction here.
pub fn has_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        level() == InstructionLevel::Avx512 && is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Limits the instruction set to one that other processes have too; `number` is that of an [`InstructionLevel`]. Has an
/// effect only before anything is computed.
pub fn limit_level(number: u64) {
    let all = [
        InstructionLevel::Baseline,
        InstructionLevel::Avx2,
        InstructionLevel::Avx512,
    ];
    let limit = all.into_iter().find(|level| *level as u64 == number);
    if let Some(limit) = limit {
        // Already decided: something has been computed.
        let _ = LEVEL.set(limit.min(best()));
    }
}

#[cfg(target_arch = "x86_64")]
fn found() -> InstructionLevel {
    let has_avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    if has_avx512 {
        InstructionLevel::Avx512
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        InstructionLevel::Avx2
    } else {
        InstructionLevel::Baseline
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn found() -> InstructionLevel {
    InstructionLevel::Baseline
}

/// Defines a function whose body, a plain loop, is compiled for each [`InstructionLevel`] and chosen at run time.
///
/// In the body, the constant `FUSED` says whether multiply-add is one instruction, with one rounding: so it is at both
/// levels above x86-64's baseline, and at the baseline of 64-bit ARM.
#[macro_export]
macro_rules! vectorised {
    (
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident $(<$($lifetime:lifetime,)? $($generic:ident: $bound:path),+>)?
        ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    ) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "a kernel's slices")]
        $visibility fn $name $(<$($lifetime,)? $($generic: $bound),+>)? ($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::inline_always, reason = "as above; it is \
                    what makes the body part of each of its three surroundings")]
            fn body<$($($lifetime,)?)? const FUSED: bool $(, $($generic: $bound),+)?> ($($argument: $type),*)
            $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                #[allow(clippy::too_many_arguments, reason = "as above")]
                fn avx512 $(<$($lifetime,)? $($generic: $bound),+>)? ($($argument: $type),*) $(-> $result)? {
                    body::<true $(, $($generic),+)?>($($argument),*)
                }

                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments, reason = "as above")]
                fn avx2 $(<$($lifetime,)? $($generic: $bound),+>)? ($($argument: $type),*) $(-> $result)? {
                    body::<true $(, $($generic),+)?>($($argument),*)
                }

                match $crate::kernels::level() {
                    // SAFETY: `level` gives this only where the processor has all four sets of AVX-512.
                    #[allow(unsafe_code, reason = "the only way in")]
                    $crate::kernels::InstructionLevel::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: `level` gives this only where the processor has AVX2 and FMA, alone or as part of
                    // AVX-512.
                    #[allow(unsafe_code, reason = "the only way in")]
                    $crate::kernels::InstructionLevel::Avx2 => return unsafe { avx2($($argument),*) },
                    $crate::kernels::InstructionLevel::Baseline => {}
                }
            }
            body::<{ cfg!(target_arch = "aarch64") } $(, $($generic),+)?>($($argument),*)
        }
    };
}
