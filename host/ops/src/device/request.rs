//! Which device is asked for.

use std::fmt;
use std::str::FromStr;

/// A device as a manifest names it: `cpu`, `cuda`, `cuda:N` or `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceRequest {
    /// The CPU.
    #[default]
    Cpu,
    /// The NVIDIA GPU of this index, as the driver counts; `cuda` alone is the first, 0.
    Cuda(usize),
    /// The first NVIDIA GPU, or the CPU where there is none that can be used.
    Auto,
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRequestError {
    text: String,
}

impl FromStr for DeviceRequest {
    type Err = DeviceRequestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || DeviceRequestError {
            text: text.to_owned(),
        };
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "auto" => Ok(Self::Auto),
            _ => {
                let index = text.strip_prefix("cuda:").ok_or_else(unknown)?;
                // `parse` would take a sign.
                if !index.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(unknown());
                }
                index.parse().map(Self::Cuda).map_err(|_| unknown())
            }
        }
    }
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl fmt::Display for DeviceRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown device `{}`: expected `cpu`, `cuda`, `cuda:N` or `auto`",
            self.text
        )
    }
}

impl std::error::Error for DeviceRequestError {}
