//! `sconce.log/1` and `sconce.screen/1`: what hooks say to the user.

use sconce_plugin_api::ext::{Log, Screen};

use crate::bridge::BridgeState;
use crate::log::Level;

impl Log for BridgeState<'_> {
    fn log(&self, level: u32, message: &str) {
        // An earlier instance of a hook that is reinstated has said it.
        if !self.is_reinstating() {
            let hook = self.hook_name();
            self.log.log(Level::from_number(level), &hook, message);
        }
    }
}

impl Screen for BridgeState<'_> {
    fn columns(&self) -> u32 {
        self.log.columns().into()
    }

    fn status(&self, text: &str) {
        self.log.status(text);
    }
}
