//! What candle's kernels were compiled for, and whether a GPU runs them.

use candle_core::cuda_backend::kernels;

use super::{DeviceError, DeviceFacts};

/// What candle's kernels were compiled for, as their first lines say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// CUDA version of the toolkit: major and minor number.
    pub(super) cuda: (u32, u32),
    /// Compute capability.
    capability: (u32, u32),
    /// Whether they run on this capability only, and not on later ones.
    is_exact: bool,
}

impl Target {
    pub(super) fn of_kernels() -> Self {
        // A form of PTX that isn't known is no reason not to try.
        Self::read(kernels::AFFINE.ptx()).unwrap_or(Self {
            cuda: (13, 0),
            capability: (0, 0),
            is_exact: false,
        })
    }

    /// Reads the directives `.version` and `.target` of PTX.
    ///
    /// PTX 9 came with CUDA 13, of the same minor versions; versions of PTX 8 are in the table of releases in NVIDIA's
    /// "PTX ISA", "Release Notes".
    fn read(ptx: &str) -> Option<Self> {
        let directive = |name: &str| {
            let line = ptx.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim())
        };
        let (major, minor) = directive(".version")?.split_once('.')?;
        let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
        let cuda = match (major, minor) {
            (8, 0..=5) => (12, minor),
            (8, 6..=8) => (12, minor + 1),
            _ => (major.checked_add(4)?, minor),
        };
        let target = directive(".target")?
            .split(',')
            .next()?
            .strip_prefix("sm_")?;
        let digits = target.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let number = digits.parse::<u32>().ok()?;
        Some(Self {
            cuda,
            capability: (number / 10, number % 10),
            is_exact: target.ends_with('a'),
        })
    }

    /// Whether the kernels run on a GPU.
    pub(super) fn check(&self, known: &DeviceFacts) -> Result<(), DeviceError> {
        let name = known.name.clone();
        let (capability, compiled) = (known.capability, self.capability);
        if capability < compiled {
            return Err(DeviceError::TooOld {
                name,
                capability,
                compiled,
            });
        }
        if self.is_exact && capability != compiled {
            return Err(DeviceError::OtherCapability {
                name,
                capability,
                compiled,
            });
        }
        Ok(())
    }
}

/// Major CUDA version that candle was compiled for.
pub(super) fn major_version() -> u32 {
    Target::of_kernels().cuda.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(capability: (u32, u32)) -> DeviceFacts {
        DeviceFacts {
            name: "a GPU".to_owned(),
            driver_version: "13.2".to_owned(),
            capability,
            memory_total: 0,
            memory_free: 0,
        }
    }

    #[test]
    fn what_kernels_were_compiled_for_is_read_from_them() {
        let read = |version: &str, target: &str| {
            Target::read(&format!(
                "//\n\n.version {version}\n.target {target}\n.address_size 64\n"
            ))
        };
        let expected = |cuda, capability, is_exact| {
            Some(Target {
                cuda,
                capability,
                is_exact,
            })
        };
        assert_eq!(read("9.2", "sm_90a"), expected((13, 2), (9, 0), true));
        assert_eq!(read("8.5", "sm_80"), expected((12, 5), (8, 0), false));
        assert_eq!(
            read("8.8", "sm_120, debug"),
            expected((12, 9), (12, 0), false)
        );
        assert_eq!(read("nine", "sm_80"), None);
    }

    #[test]
    fn gpus_that_the_kernels_do_not_run_on_are_refused() {
        let target = |is_exact| Target {
            cuda: (13, 2),
            capability: (9, 0),
            is_exact,
        };
        assert!(target(true).check(&gpu((9, 0))).is_ok());
        assert!(target(false).check(&gpu((10, 0))).is_ok());
        let too_old = target(false).check(&gpu((8, 9))).unwrap_err();
        assert!(matches!(too_old, DeviceError::TooOld { .. }), "{too_old}");
        let other = target(true).check(&gpu((10, 0))).unwrap_err();
        assert!(
            matches!(other, DeviceError::OtherCapability { .. }),
            "{other}"
        );
    }
}
