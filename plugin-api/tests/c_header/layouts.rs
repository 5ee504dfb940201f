//! The layouts of all types that cross the boundary, as assertions in C.

use std::fmt::Write;
use std::mem::{align_of, offset_of, size_of};

use sconce_plugin_api::abi::*;
use sconce_plugin_api::ext::*;

use super::c_type::CType;

/// A type of the interface and its counterpart in `sconce.h`.
pub(crate) struct Layout {
    pub(crate) rust: String,
    pub(crate) c: String,
    /// Assertions of its size and of every field's offset, size and type.
    pub(crate) assertions: String,
}

/// Lists types with all their fields: one that is left out does not compile.
macro_rules! layouts {
    ($($rust:ident => $c:ident { $($field:ident),* $(,)? })*) => {
        /// Types that are written by hand.
        fn written() -> Vec<Layout> {
            vec![$({
                #[expect(unused_variables, reason = "only all names must be there")]
                fn has_all_fields(value: &$rust) {
                    let $rust { $($field),* } = value;
                }
                let _ = has_all_fields;
                let mut assertions = whole(stringify!($c), size_of::<$rust>(), align_of::<$rust>());
                $(assertions += &field(
                    stringify!($c),
                    stringify!($field),
                    offset_of!($rust, $field),
                    |value: &$rust| &value.$field,
                );)*
                Layout { rust: stringify!($rust).to_owned(), c: stringify!($c).to_owned(), assertions }
            }),*]
        }
    };
}

layouts! {
    TextAbi => sconce_text { pointer, length }
    ViewAbi => sconce_view {
        context, payload, stream, epoch, epochs, iteration, update, batch, batches, samples, batch_size, ordinal,
        loss, learning_rate, flags, point, phase,
    }
    OutcomeAbi => sconce_outcome { kind, reason }
    HookTimeAbi => sconce_hook_time { name, calls, seconds, longest, requests }
    ProfileAbi => sconce_profile { total, data, forward, loss, backward, update, hooks, hook_count }
    FailureAbi => sconce_failure { origin, message, hook }
    ModuleAbi => sconce_module { name, kind }
    CheckpointAbi => sconce_checkpoint { path, tag, hook, error, bytes, seconds, reference, missing }
    HostRoot => sconce_host { abi_epoch, version, api_version, query }
    SetupAbi => sconce_setup { host, context, name, run_directory, manifest, seed }
    HookTable => sconce_hook_table { call, save_state, load_state, drop }
    HookAbi => sconce_hook { instance, table }
    CPlugin => sconce_plugin { abi_epoch, describe, create, query }
    CTable => sconce_c_table {
        set_error, read_error, clear_error, append, set_string, json_number, json_bool, json_text,
    }
    MetricAbi => sconce_metric { name, value }
    TensorAbi => sconce_tensor {
        data, byte_length, shape, strides, name, flags, dimensions, device_type, device_id, type_code, type_bits,
        type_lanes,
    }
    GroupAbi => sconce_group { name, learning_rate, weight_decay }
    GpuFiguresAbi => sconce_gpu_figures { used, peak, reserved, free, total, utilization }
    GpuSpanAbi => sconce_gpu_span { name, begin, duration, stream }
    RetainedAbi => sconce_retained { tensor, token }
    VectorsAbi => sconce_vectors { indices, count, collection, axis }
    DeviceAbi => sconce_device {
        device_type, device_id, capability_major, capability_minor, name, stream, context,
    }
    TransportTable => sconce_transport_table {
        open, broadcast, gather, exchange, collect, abort, close,
    }
}

/// Tables that the extensions' definitions make. Their prototypes come from these; that they are right is seen where C calls them
/// (`tests/museum/exhibit.c`).
fn generated(table: &Declaration) -> Layout {
    let name = table
        .id
        .trim_start_matches("sconce.")
        .trim_end_matches("/1");
    let c = format!("sconce_{}_table", name.replace('-', "_"));
    let mut assertions = whole(&c, table.size, align_of::<fn()>());
    for (field, offset) in table.fields {
        let _ = writeln!(
            assertions,
            "CHECK(offset_of_{c}__{field}, offsetof({c}, {field}) == {offset})"
        );
    }
    let capital = |word: &str| {
        let first = word.chars().next().map(|first| first.to_ascii_uppercase());
        first
            .into_iter()
            .chain(word.chars().skip(1))
            .collect::<String>()
    };
    let rust: String = name.split('-').map(capital).collect();
    Layout {
        rust: format!("{rust}Table"),
        c,
        assertions,
    }
}

/// All types that `sconce.h` declares with their fields.
pub(crate) fn layouts() -> Vec<Layout> {
    let mut all = written();
    all.extend(DECLARATIONS.iter().map(generated));
    all
}

fn whole(c: &str, size: usize, align: usize) -> String {
    format!(
        "\n/* {c} */\nCHECK(size_of_{c}, sizeof({c}) == {size})\nstruct {c}_aligned {{ char first; {c} second; }};\n\
         CHECK(alignment_of_{c}, offsetof(struct {c}_aligned, second) == {align})\n"
    )
}

/// The pointer in the function has the wrong type, which is an error, where the field is declared with another type.
fn field<S, T: CType>(c: &str, name: &str, offset: usize, _: fn(&S) -> &T) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "CHECK(offset_of_{c}__{name}, offsetof({c}, {name}) == {offset})"
    );
    let _ = writeln!(
        text,
        "CHECK(size_of_{c}__{name}, sizeof((({c} *)0)->{name}) == {})",
        size_of::<T>()
    );
    let pointer = T::declare("*pointer");
    let _ = writeln!(
        text,
        "void type_of_{c}__{name}({c} *value);\n\
         void type_of_{c}__{name}({c} *value) {{ {pointer} = &value->{name}; (void)pointer; }}"
    );
    text
}
