//! Candle's operations on the emulated device of `tests/cuda`, against the CPU. They run where `tests/cuda/run` calls them.

use candle_core::{DType, Device, Result, Tensor};

use super::{DeviceError, DeviceRequest, copy_to_host, facts, is_out_of_memory, open, synchronize};

/// The device, and the name that says it is emulated; `None` where no libraries are named.
fn device() -> Option<Device> {
    std::env::var_os(super::LIBRARIES_VARIABLE)?;
    Some(open(DeviceRequest::Cuda(0)).unwrap())
}

/// Largest difference between what an operation gives on the device and on the CPU, relative to the largest value.
fn difference(device: &Device, compute: impl Fn(&Device) -> Result<Tensor>) -> f64 {
    let values = |device: &Device| {
        let output = copy_to_host(&compute(device).unwrap()).unwrap();
        let output = output.to_dtype(DType::F64).unwrap();
        output.flatten_all().unwrap().to_vec1::<f64>().unwrap()
    };
    let (there, here) = (values(device), values(&Device::Cpu));
    assert_eq!(there.len(), here.len());
    let largest = here
        .iter()
        .fold(1e-30, |largest: f64, x| largest.max(x.abs()));
    let differences = there.iter().zip(&here).map(|(x, y)| (x - y).abs());
    // A value that is no number makes the maximum none as well.
    differences.fold(
        0.0,
        |largest: f64, it| if it <= largest { largest } else { it },
    ) / largest
}

#[test]
fn facts_of_the_device_are_the_drivers() {
    let Some(device) = device() else { return };
    let known = facts(&device).unwrap();
    assert_eq!(known.capability, (9, 0));
    assert_eq!(known.driver_version, "13.2");
    assert!(known.memory_free <= known.memory_total);
    assert_eq!(super::list().unwrap().len(), 1);
    let count = 1;
    let absent = open(DeviceRequest::Cuda(1)).unwrap_err();
    assert_eq!(absent, DeviceError::NoSuchDevice { index: 1, count });
    assert!(open(DeviceRequest::Auto).unwrap().is_cuda());
}

#[test]
fn candles_operations_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let x =
        |device: &Device| copy_to_host(&crate::normal_numbers(1, (3, 40, 7))?)?.to_device(device);
    let y =
        |device: &Device| copy_to_host(&crate::normal_numbers(2, (3, 7, 33))?)?.to_device(device);
    let checks: [(&str, f64); 9] = [
        ("matmul", difference(&device, |at| x(at)?.matmul(&y(at)?))),
        (
            "matmul of transposed",
            difference(&device, |at| {
                x(at)?.transpose(1, 2)?.matmul(
                    &y(at)?
                        .transpose(1, 2)?
                        .narrow(1, 0, 1)?
                        .broadcast_as((3, 40, 7))?
                        .contiguous()?,
                )
            }),
        ),
        (
            "matmul in bf16",
            difference(&device, |at| {
                x(at)?
                    .to_dtype(DType::BF16)?
                    .matmul(&y(at)?.to_dtype(DType::BF16)?)
            }) / 100.0,
        ),
        ("sum", difference(&device, |at| x(at)?.sum((0, 2)))),
        ("max", difference(&device, |at| x(at)?.max(1))),
        ("gelu", difference(&device, |at| x(at)?.gelu_erf())),
        (
            "broadcast",
            difference(&device, |at| {
                x(at)?.broadcast_add(&y(at)?.narrow(2, 0, 1)?.transpose(1, 2)?)
            }),
        ),
        (
            "gather",
            difference(&device, |at| {
                let rows = Tensor::new(&[2u32, 0, 1, 1], at)?;
                x(at)?.index_select(&rows, 0)
            }),
        ),
        ("compare", difference(&device, |at| x(at)?.ge(0.0))),
    ];
    for (name, difference) in checks {
        assert!(difference < 1e-5, "{name}: {difference}");
    }
}

#[test]
fn exhausted_memory_is_an_error_of_its_own() {
    let Some(device) = device() else { return };
    let error = Tensor::zeros((1 << 20, 1 << 20), DType::F32, &device).unwrap_err();
    assert!(is_out_of_memory(&error), "{error}");
    // The device is still usable.
    let ones = Tensor::ones(3, DType::F32, &device).unwrap();
    synchronize(&device).unwrap();
    assert_eq!(
        copy_to_host(&ones).unwrap().to_vec1::<f32>().unwrap(),
        [1.0; 3]
    );
}
