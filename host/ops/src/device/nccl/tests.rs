//! A communicator of one rank on the tests' device: what NCCL itself moves takes several processes (`tests/cuda/whole_runs.py`).

use candle_core::{DType, Device, Tensor};

use super::{Communicator, NcclError, UniqueId, gpu_id, version};
use crate::device;

#[test]
fn a_rank_alone_exchanges_with_itself() {
    let device = device::for_tests();
    if device.is_cpu() {
        assert_eq!(version(&device), Err(NcclError::NoGpu));
        assert_eq!(gpu_id(&device), None);
        return;
    }
    assert!(version(&device).unwrap().starts_with("2."));
    assert!(gpu_id(&device).is_some());
    let id = UniqueId::new().unwrap();
    assert_eq!(UniqueId::from_bytes(id.bytes()), Some(id.clone()));
    let mut communicator = Communicator::connect(&device, &id, 0, 1).unwrap();
    let send = Tensor::new(&[1_f32, 2.0, 3.0], &device).unwrap();
    let receive = Tensor::zeros(4, DType::F32, &device).unwrap();
    communicator
        .exchange((&send, &[0, 3]), (&receive, &[0, 3]))
        .unwrap();
    communicator.collect(&receive, &[0, 4]).unwrap();
    communicator.wait().unwrap();
    let received = device::copy_to_host(&receive).and_then(|it| it.to_vec1::<f32>());
    assert_eq!(received.unwrap(), [1.0, 2.0, 3.0, 0.0]);
    // Parts that don't fit are refused here, before they would leave ranks waiting for each other.
    for (sent, received) in [([0, 4], [0, 4]), ([0, 2], [0, 3])] {
        let error = communicator
            .exchange((&send, &sent), (&receive, &received))
            .unwrap_err();
        assert!(matches!(error, NcclError::Failed { .. }), "{error}");
    }
    let on_cpu = Tensor::zeros(4, DType::F32, &Device::Cpu).unwrap();
    assert!(communicator.collect(&on_cpu, &[0, 4]).is_err());
    communicator.abort();
    let ended = communicator.collect(&receive, &[0, 4]).unwrap_err();
    assert!(ended.to_string().contains("has ended"), "{ended}");
}
