//! Where a run computes, and in which precision: the keys `device` and `precision`.

use std::fmt;

use schemars::JsonSchema;
use sconce_ops::device::DeviceRequest;
use serde::{Deserialize, Serialize};

/// A device by its name: `cpu`, `cuda`, `cuda:N` or `auto`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DeviceName(
    #[schemars(
        regex(pattern = r"^(cpu|cuda|cuda:[0-9]{1,3}|auto)$"),
        extend("examples" = ["cpu", "cuda", "cuda:0", "auto"])
    )]
    String,
);

impl Default for DeviceName {
    fn default() -> DeviceName {
        DeviceName("cpu".to_owned())
    }
}

impl DeviceName {
    /// The device that is asked for. Of several ranks on a machine, each gets the GPU of its own number if the name is `cuda`
    /// alone.
    pub fn request(&self, local_rank: Option<usize>) -> DeviceRequest {
        match (self.0.as_str(), local_rank) {
            ("cuda", Some(rank)) => DeviceRequest::Cuda(rank),
            // The schema admits no other texts than those that can be parsed.
            (text, _) => text.parse().unwrap_or_default(),
        }
    }

    /// Whether it names one GPU, whichever rank asks.
    pub fn has_number(&self) -> bool {
        self.0.contains(':')
    }

    /// Whether it is `cpu`, the default.
    pub fn is_cpu(&self) -> bool {
        *self == DeviceName::default()
    }

    /// Whether it names a GPU, without which the run can't start.
    pub fn is_gpu(&self) -> bool {
        !self.is_cpu() && self.0 != "auto"
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_of_a_machine_takes_its_own_gpu() {
        let name = |text: &str| DeviceName(text.to_owned());
        assert_eq!(name("cuda").request(Some(3)), DeviceRequest::Cuda(3));
        assert_eq!(name("cuda").request(None), DeviceRequest::Cuda(0));
        assert_eq!(name("cuda:1").request(Some(3)), DeviceRequest::Cuda(1));
        assert_eq!(name("auto").request(None), DeviceRequest::Auto);
        assert_eq!(DeviceName::default().request(Some(1)), DeviceRequest::Cpu);
    }
}
