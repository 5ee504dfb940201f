//! Tables of indices, which stay on their device: windows have the same ones in every batch.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Device, DeviceLocation, Result};

/// Tables by what they were computed from.
pub(crate) struct Tables<K, V>(Mutex<Option<ByKey<K, V>>>);

/// Tables with their devices.
type ByKey<K, V> = HashMap<(K, DeviceLocation), (Device, Arc<V>)>;

/// Tables kept at most; a model has one for each size of its images.
const MOST: usize = 256;

impl<K: Hash + Eq, V> Tables<K, V> {
    pub(crate) const fn new() -> Tables<K, V> {
        Tables(Mutex::new(None))
    }

    /// The table of a key on a device, computed by `make` where it isn't there.
    pub(crate) fn get(
        &self,
        key: K,
        device: &Device,
        make: impl FnOnce(&K) -> Result<V>,
    ) -> Result<Arc<V>> {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tables = tables.get_or_insert_default();
        let key = (key, device.location());
        if let Some((of, table)) = tables.get(&key)
            // A device that was opened again doesn't know the memory of the one before.
            && of.same_device(device)
        {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(make(&key.0)?);
        if tables.len() >= MOST {
            tables.clear();
        }
        tables.insert(key, (device.clone(), Arc::clone(&table)));
        Ok(table)
    }
}
