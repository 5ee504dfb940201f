//! The numbers of the interface, under their names in `sconce.h`.

use sconce_plugin_api::abi::{ABI_EPOCH, Status, ViewAbi};
use sconce_plugin_api::ext::{
    Change, Collection, Combination, Keep, Level, Reduction, Request, ResumeTable, TensorAbi,
    VectorsAbi,
};
use sconce_plugin_api::{Phase, Point};

/// All numbers that `sconce.h` defines, with their names there.
pub(crate) fn numbers() -> Vec<(String, u64)> {
    let mut all = vec![named("ABI_EPOCH", u64::from(ABI_EPOCH))];
    all.extend(statuses().map(|(name, status)| named(name, u64::from(status.0))));
    all.extend(flags().map(|(name, flag)| named(name, flag)));
    all.extend(passes().map(|(name, number)| named(name, u64::from(number))));
    all.extend(DEVICES.map(|(name, number)| named(name, number)));
    all.extend(Phase::ALL.map(|phase| named(phase.name(), u64::from(phase.number()))));
    all.extend((Point::ALL.iter()).map(|point| named(point.name(), u64::from(point.number()))));
    all.extend(Request::ALL.map(|request| named(request.name(), request as u64)));
    all.extend(Collection::ALL.map(|kind| named(&format!("{kind:?}"), kind as u64)));
    all.extend(
        [Level::Warn, Level::Info, Level::Debug].map(|level| named(name_of(level), level as u64)),
    );
    let keeps = (0..).map_while(Keep::from_number);
    all.extend(keeps.map(|keep| named(&format!("KEEP_{keep:?}"), keep as u64)));
    all
}

/// Types of devices, which are `DLPack`'s.
const DEVICES: [(&str, u64); 2] = [("DEVICE_CPU", 1), ("DEVICE_CUDA", 2)];

/// The statuses, by their names in `abi/error.rs`.
pub(crate) fn statuses() -> std::array::IntoIter<(&'static str, Status), 9> {
    [
        ("OK", Status::OK),
        ("ERROR", Status::ERROR),
        ("PANIC", Status::PANIC),
        ("CONFIG", Status::CONFIG),
        ("NO_SUCH_KIND", Status::NO_SUCH_KIND),
        ("NOT_FOUND", Status::NOT_FOUND),
        ("NOT_LEGAL_HERE", Status::NOT_LEGAL_HERE),
        ("INVALID", Status::INVALID),
        ("UNSUPPORTED", Status::UNSUPPORTED),
    ]
    .into_iter()
}

/// The bits of flags, whose names end as the constants' in Rust.
pub(crate) fn flags() -> std::array::IntoIter<(&'static str, u64), 9> {
    [
        ("VIEW_HAS_LOSS", ViewAbi::HAS_LOSS),
        ("VIEW_INITIAL", ViewAbi::INITIAL),
        ("VIEW_UPDATES", ViewAbi::UPDATES),
        ("VIEW_LOSS_WAITS", ViewAbi::LOSS_WAITS),
        ("TENSOR_WRITABLE", TensorAbi::WRITABLE),
        ("TENSOR_BUFFER", TensorAbi::BUFFER),
        ("RESUMED", ResumeTable::RESUMED),
        ("KNOWN", ResumeTable::KNOWN),
        ("RELOADED", ResumeTable::RELOADED),
    ]
    .into_iter()
}

/// The numbers of passes over collections.
fn passes() -> std::array::IntoIter<(&'static str, u32), 13> {
    let change = |change: Change<'_>| change.send(|number, _| number);
    [
        ("WHOLE", VectorsAbi::WHOLE),
        ("REDUCE_POWERS", Reduction::Powers(1.0).numbers().0),
        ("REDUCE_LARGEST", Reduction::Largest.numbers().0),
        ("REDUCE_NOT_FINITE", Reduction::NotFinite.numbers().0),
        ("REDUCE_NOT_A_NUMBER", Reduction::NotANumber.numbers().0),
        ("CHANGE_SCALE", change(Change::Scale(1.0))),
        ("CHANGE_SCALE_SLICES", change(Change::ScaleSlices(&[]))),
        ("CHANGE_CLAMP", change(Change::Clamp(0.0, 1.0))),
        ("CHANGE_FILL", change(Change::Fill(0.0))),
        ("COMBINE_ADD", Combination::Add(1.0).numbers().0),
        ("COMBINE_BLEND", Combination::Blend(1.0).numbers().0),
        ("COMBINE_MULTIPLY", Combination::Multiply.numbers().0),
        ("COMBINE_COPY", Combination::Copy.numbers().0),
    ]
    .into_iter()
}

/// A level that is left out of the list above does not compile here.
fn name_of(level: Level) -> &'static str {
    match level {
        Level::Warn => "WARN",
        Level::Info => "INFO",
        Level::Debug => "DEBUG",
    }
}

fn named(name: &str, number: u64) -> (String, u64) {
    (format!("SCONCE_{}", name.to_uppercase()), number)
}
