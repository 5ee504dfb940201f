//! The device of a run: opened, and compared with that of a checkpoint.

use candle_core::Device;
use sconce_ops::device::{self, DeviceRequest};

use super::StartFailure;
use crate::checkpoint::Facts;
use crate::device_facts::device_name;
use crate::diagnostic::Diagnostic;
use crate::manifest::{DeviceName, Manifest};
use crate::nn::Precision;
use crate::team::Launch;

/// Lowest compute capability of GPUs that compute in TF32 and BF16.
const TENSOR_CORES: (u32, u32) = (8, 0);

/// Opens the manifest's device. Tensors of two calls can't be used together, so a run opens it once.
///
/// # Errors
///
/// If it can't be had, or can't compute in the manifest's precision.
pub fn open_device(manifest: &Manifest) -> Result<Device, StartFailure> {
    let launch = Launch::of_this_process().filter(|launch| launch.size > 1);
    let request = requested(&manifest.device, launch.as_ref())
        .map_err(|(problem, hint)| refused(manifest, "device", problem, Some(hint)))?;
    let device = device::open(request).map_err(|error| {
        let hint = match error {
            device::DeviceError::NoSuchDevice { .. } if launch.is_some() => Some(
                "each rank of a machine takes the GPU of its own number there: start as many ranks as it has GPUs; \
                 where each rank sees only its own GPU, name `cuda:0`",
            ),
            _ => None,
        };
        refused(
            manifest,
            "device",
            format!("`{}`: {error}", manifest.device),
            hint,
        )
    })?;
    check_device(manifest, &device)?;
    Ok(device)
}

/// The device of this process, which may be one of several ranks; or what is wrong, and what to do.
fn requested(
    name: &DeviceName,
    launch: Option<&Launch>,
) -> Result<DeviceRequest, (String, &'static str)> {
    let local_rank = launch.and_then(|launch| launch.local_rank);
    match (name.request(local_rank), launch) {
        (DeviceRequest::Auto, Some(launch)) => Err((
            format!(
                "`auto` may be another kind of device for each of {} ranks",
                launch.size
            ),
            "name `cuda`, which is a GPU for each rank of a machine, or `cpu`",
        )),
        (DeviceRequest::Cuda(_), Some(launch)) if local_rank.is_none() && !name.has_number() => {
            Err((
                format!(
                    "{} does not say which rank of its machine this is, and so not which GPU it takes",
                    launch.launcher
                ),
                "start one rank on each machine, and name its GPU: `cuda:0`",
            ))
        }
        (request, _) => Ok(request),
    }
}

/// Checks the device on which a task is against the manifest: a program's own task chooses it itself.
///
/// # Errors
///
/// If it is not the one that the manifest names, or can't compute in the manifest's precision.
pub(super) fn check_device(manifest: &Manifest, device: &Device) -> Result<(), StartFailure> {
    if device.is_cpu() && manifest.device.is_gpu() {
        return Err(refused(
            manifest,
            "device",
            format!(
                "the program's task is on the CPU, not on `{}`",
                manifest.device
            ),
            Some(
                "it has to create its parameters on the device that `sconce::session::open_device` returns",
            ),
        ));
    }
    if manifest.precision == Precision::Tf32 && device.is_cpu() {
        return Err(refused(
            manifest,
            "precision",
            "`tf32` is a precision of NVIDIA GPUs, and this run is on the CPU".to_owned(),
            Some("leave `precision` out, or name a GPU: `\"device\": \"cuda\"`"),
        ));
    }
    if manifest.precision != Precision::F32
        && let Some(facts) = device::facts(device)
        && facts.capability < TENSOR_CORES
    {
        let (major, minor) = facts.capability;
        return Err(refused(
            manifest,
            "precision",
            format!(
                "{} has compute capability {major}.{minor}; `{}` needs {}.{}",
                facts.name, manifest.precision, TENSOR_CORES.0, TENSOR_CORES.1
            ),
            Some("leave `precision` out"),
        ));
    }
    Ok(())
}

/// A problem with a key of the manifest.
fn refused(manifest: &Manifest, key: &str, message: String, hint: Option<&str>) -> StartFailure {
    let problem = Diagnostic::new(message).at(manifest.place(key));
    StartFailure::usage(vec![match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }])
}

/// How the device differs from that of the run that saved a checkpoint.
pub fn device_changes(saved: &Facts, device: &Device) -> Option<String> {
    let shown = |name: Option<&str>| name.map_or("the CPU", |name| name).to_owned();
    let is = device_name(device);
    (saved.device != is).then(|| {
        format!(
            "the run was on {}, now on {}, whose sums have another order",
            shown(saved.device.as_deref()),
            shown(is.as_deref())
        )
    })
}

/// How the arithmetic of rounded products differs from that of the run that saved a checkpoint, in the same precision and on the same
/// device.
pub fn products_change(saved: &Facts, is: Option<&str>) -> Option<String> {
    let was = saved.products.as_deref();
    (was != is).then(|| {
        let how = |kind: Option<&str>| match kind {
            Some(kind) => format!("as `{kind}`"),
            None => "in another way".to_owned(),
        };
        let why = match (was, is) {
            (Some(_), None) => ": this processor has no AVX2, or it may not be used",
            _ => "",
        };
        format!(
            "products in `bf16` were computed {}, now {}, which rounds and adds up differently{why}",
            how(was),
            how(is)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::Launcher;

    #[test]
    fn ranks_of_a_machine_never_share_a_gpu_unasked() {
        let of = |name: &str, local_rank| {
            let name = serde_json::from_value(name.into()).expect("a name");
            let launch = Launch {
                launcher: Launcher::Pmi,
                rank: 3,
                size: 4,
                local_rank,
                local_size: None,
            };
            requested(&name, Some(&launch))
        };
        assert_eq!(of("cuda", Some(1)), Ok(DeviceRequest::Cuda(1)));
        assert_eq!(of("cuda:2", None), Ok(DeviceRequest::Cuda(2)));
        assert_eq!(of("cpu", None), Ok(DeviceRequest::Cpu));
        let (unknown, _) = of("cuda", None).expect_err("any GPU");
        assert!(unknown.starts_with("mpirun does not say"), "{unknown}");
        let (mixed, _) = of("auto", Some(1)).expect_err("any device");
        assert!(mixed.contains("each of 4 ranks"), "{mixed}");
    }

    #[test]
    fn a_resume_with_other_products_is_reported() {
        let by = |products: Option<&str>| Facts {
            products: products.map(str::to_owned),
            ..Facts::default()
        };
        assert_eq!(products_change(&by(Some("pairs")), Some("pairs")), None);
        assert_eq!(products_change(&by(None), None), None);
        let change = |was, is| products_change(&by(was), is).expect("a change");
        let found = change(Some("pairs"), None);
        assert!(
            found.contains("computed as `pairs`, now in another way"),
            "{found}"
        );
        assert!(found.ends_with("no AVX2, or it may not be used"), "{found}");
        let found = change(Some("bfmmla"), Some("pairs"));
        assert!(
            found.contains("as `bfmmla`, now as `pairs`, which rounds"),
            "{found}"
        );
        let found = change(None, Some("pairs"));
        assert!(found.contains("in another way, now as `pairs`"), "{found}");
    }

    #[test]
    fn a_resume_on_another_device_is_told() {
        let on = |device: Option<&str>| Facts {
            device: device.map(str::to_owned),
            ..Facts::default()
        };
        assert_eq!(device_changes(&on(None), &Device::Cpu), None);
        let told = device_changes(&on(Some("NVIDIA H100")), &Device::Cpu).expect("a change");
        assert!(
            told.starts_with("the run was on NVIDIA H100, now on the CPU"),
            "{told}"
        );
    }
}
