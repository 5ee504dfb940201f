//! Requests, and what every build answers; GPUs are tested by `tests/cuda`.

use candle_core::{Device, Tensor};

use super::{DeviceError, DeviceRequest, copy_to_host, facts, is_out_of_memory, open};

#[test]
fn requests_are_read_and_written_as_in_manifests() {
    for (text, request) in [
        ("cpu", DeviceRequest::Cpu),
        ("cuda:0", DeviceRequest::Cuda(0)),
        ("cuda:3", DeviceRequest::Cuda(3)),
        ("auto", DeviceRequest::Auto),
    ] {
        assert_eq!(text.parse(), Ok(request));
        assert_eq!(request.to_string(), text);
    }
    assert_eq!("cuda".parse(), Ok(DeviceRequest::Cuda(0)));
    for text in [
        "",
        "gpu",
        "cuda:",
        "cuda:+1",
        "cuda:-1",
        "CUDA",
        "cuda:99999999999999999999",
    ] {
        let error = text.parse::<DeviceRequest>().unwrap_err();
        assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
    }
}

#[test]
fn the_cpu_is_always_there() {
    let device = open(DeviceRequest::Cpu).unwrap();
    assert!(device.is_cpu());
    assert_eq!(facts(&device), None);
    let tensor = Tensor::zeros(3, candle_core::DType::F32, &device).unwrap();
    assert_eq!(copy_to_host(&tensor).unwrap().id(), tensor.id());
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_build_without_cuda_says_so() {
    assert_eq!(
        open(DeviceRequest::Cuda(0)).unwrap_err(),
        DeviceError::NotBuilt
    );
    assert_eq!(super::list(), Err(DeviceError::NotBuilt));
    assert!(open(DeviceRequest::Auto).unwrap().is_cpu());
}

#[test]
fn errors_name_the_remedy() {
    let too_old = DeviceError::TooOld {
        name: "Old".to_owned(),
        capability: (7, 5),
        compiled: (9, 0),
    };
    assert!(too_old.to_string().contains("CUDA_COMPUTE_CAP=75"));
    let absent = DeviceError::NoSuchDevice { index: 2, count: 2 };
    assert!(absent.to_string().ends_with("`cuda:0` to `cuda:1`"));
}

#[test]
fn out_of_memory_is_told_from_other_errors() {
    let refused = |code: &str| candle_core::Error::Msg(format!("DriverError({code}, \"\")")).bt();
    assert!(is_out_of_memory(&refused("CUDA_ERROR_OUT_OF_MEMORY")));
    assert!(is_out_of_memory(
        &refused("CUDA_ERROR_OUT_OF_MEMORY").context("a layer")
    ));
    assert!(!is_out_of_memory(&refused("CUDA_ERROR_INVALID_VALUE")));
    let device = Device::Cpu;
    let mismatch = Tensor::zeros((2, 3), candle_core::DType::F32, &device)
        .and_then(|x| x.matmul(&x))
        .unwrap_err();
    assert!(!is_out_of_memory(&mismatch));
}
