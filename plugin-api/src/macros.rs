//! [`export_plugin!`](crate::export_plugin), the macro that makes a library a plugin.

/// Exports hooks from a shared library: `export_plugin!(First, Second);`, once per crate.
///
/// Each type must implement [`Hook`](crate::Hook) with [`#[hook]`](macro@crate::hook). The crate needs
/// `crate-type = ["cdylib"]` in its `Cargo.toml`.
///
/// The macro generates the root module that hosts load, and a metadata section that they can read without
/// running any of the plugin's code.
///
/// A library may also export [transports](crate::transport), with hooks or without:
/// `export_plugin!(First; transports: [Mine]);`, `export_plugin!(transports: [Mine]);`.
#[macro_export]
macro_rules! export_plugin {
    (transports: [$($transport:ty),+ $(,)?] $(,)?) => {
        $crate::export_plugin!(@hooks [] transports [$($transport),+]);
    };
    ($($hook:ty),+ $(,)?) => {
        $crate::export_plugin!(@hooks [$($hook),+] transports []);
    };
    ($($hook:ty),+ $(,)?; transports: [$($transport:ty),+ $(,)?] $(,)?) => {
        $crate::export_plugin!(@hooks [$($hook),+] transports [$($transport),+]);
    };
    (@hooks [$($hook:ty),*] transports [$($transport:ty),*]) => {
        #[doc(hidden)]
        const _: () = {
            use $crate::__private as private;
            use $crate::{abi, export};

            const PANIC: &str = if cfg!(panic = "abort") { "abort" } else { "unwind" };

            const fn build<const N: usize>() -> export::Bytes<N> {
                export::metadata::<N>(
                    env!("CARGO_PKG_NAME"),
                    env!("CARGO_PKG_VERSION"),
                    env!("CARGO_PKG_DESCRIPTION"),
                    PANIC,
                    &[$(<$hook as $crate::HookKind>::METADATA),*],
                    &[$((
                        <$transport as $crate::transport::Transport>::NAME,
                        <$transport as $crate::transport::Transport>::ABOUT,
                    )),*],
                )
            }

            const LENGTH: usize = build::<0>().length();
            static METADATA: export::Bytes<LENGTH> = build();

            #[used]
            #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".sconce.plugin"))]
            #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__sconce_plugin"))]
            static SECTION: [u8; LENGTH + 12] = export::section(build::<LENGTH>().text());

            static KINDS: &[export::Kind] = &[$(export::kind::<$hook>()),*];
            static TRANSPORTS: &[export::TransportKind] =
                &[$(export::transport_kind::<$transport>()),*];
            static TRANSPORT_TABLE: $crate::ext::TransportTable =
                export::transport_table(open_transport);

            unsafe extern "C" fn describe(
                description: *mut private::RString,
                error: *mut abi::ErrorAbi,
            ) -> u32 {
                // Older compilers do not pass `#[used]` on to the linker, which drops sections without
                // references (rust-lang/rust#140872): this is the reference.
                // SAFETY: the array is not empty, so its first byte can be read.
                let _ = unsafe { (&raw const SECTION).cast::<u8>().read_volatile() };
                // SAFETY: the host upholds the contract of `PluginRoot::describe`.
                unsafe { export::describe(METADATA.text(), KINDS, description, error) }
            }

            unsafe extern "C" fn create(
                kind: abi::TextAbi,
                config: abi::TextAbi,
                setup: *const abi::SetupAbi,
                hook: *mut abi::HookAbi,
                error: *mut abi::ErrorAbi,
            ) -> u32 {
                // SAFETY: the host upholds the contract of `PluginRoot::create`.
                unsafe { export::create_from(KINDS, kind, config, setup, hook, error) }
            }

            unsafe extern "C" fn query(extension: abi::TextAbi) -> *const ::core::ffi::c_void {
                // SAFETY: the host upholds the contract of `PluginRoot::query`.
                unsafe { export::query_transports(TRANSPORTS, &TRANSPORT_TABLE, extension) }
            }

            unsafe extern "C" fn open_transport(
                name: abi::TextAbi,
                config: abi::TextAbi,
                timeout: f64,
                instance: *mut *mut ::core::ffi::c_void,
                facts: *mut private::RString,
                error: *mut abi::ErrorAbi,
            ) -> u32 {
                // SAFETY: the host upholds the contract of `TransportTable::open`.
                unsafe {
                    export::open_from(TRANSPORTS, name, config, timeout, instance, facts, error)
                }
            }

            fn root() -> abi::PluginRootRef {
                use private::PrefixTypeTrait as _;
                abi::PluginRoot {
                    abi_epoch: abi::ABI_EPOCH,
                    describe,
                    create,
                    query,
                }
                .leak_into_prefix()
            }

            extern "C" fn erased_root() -> private::RootModuleResult {
                private::__call_root_module_loader(root)
            }

            // The symbol that abi_stable looks up, `ROOT_MODULE_LOADER_NAME`.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            pub static ROOT: private::LibHeader =
                // SAFETY: `erased_root` returns a `PluginRootRef`, erased by abi_stable itself.
                unsafe {
                    private::LibHeader::from_constructor::<abi::PluginRootRef>(
                        erased_root,
                        private::CheckTypeLayout::Yes,
                    )
                };
        };
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_exported_symbol_is_the_one_that_hosts_look_for() {
        let name = crate::__private::ROOT_MODULE_LOADER_NAME;
        assert!(include_str!("macros.rs").contains(&format!("export_name = \"{name}\"")));
    }
}
