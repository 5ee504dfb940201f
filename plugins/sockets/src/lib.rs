//! The transport `sockets`: moves bytes between processes on one machine, through Unix sockets.
//!
//! `sconce launch -n 4 run.json` starts the processes and says by environment variables where they meet. Every rank is
//! connected with every other one; each call sends directly to all who want the bytes.
//!
//! - `meeting`: what the environment says
//! - `mesh`: the connections between all ranks
//! - `transfer`: sending and receiving on many connections at once
//! - `network`: an emulated slower network, for measurements

#![forbid(unsafe_code)]

#[cfg(unix)]
mod meeting;
#[cfg(unix)]
mod mesh;
#[cfg(unix)]
mod network;
#[cfg(test)]
#[cfg(unix)]
mod tests;
#[cfg(unix)]
mod transfer;

#[cfg(unix)]
mod sockets {
    use std::time::Duration;

    use sconce_plugin_api::Result;
    use sconce_plugin_api::transport::{Transport, TransportFacts};

    use super::meeting::Meeting;
    use super::mesh::Mesh;

    /// This process's connections with all others.
    pub(super) struct Sockets {
        mesh: Mesh,
    }

    impl Transport for Sockets {
        const NAME: &'static str = "sockets";
        const ABOUT: &'static str = "Unix sockets between processes on one machine.";

        fn open(_config: &str, timeout: Duration) -> Result<Self> {
            let meeting = Meeting::from_environment(|name| std::env::var(name).ok())?;
            Ok(Sockets {
                mesh: Mesh::connect(&meeting, timeout)?,
            })
        }

        fn facts(&mut self) -> Result<TransportFacts> {
            Ok(self.mesh.facts())
        }

        fn broadcast(&mut self, data: &mut [u8], root: usize) -> Result<()> {
            self.mesh.broadcast(data, root)
        }

        fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<()> {
            self.mesh.gather(own, all)
        }

        fn exchange(
            &mut self,
            send: &[u8],
            send_at: &[u64],
            receive: &mut [u8],
            receive_at: &[u64],
        ) -> Result<()> {
            self.mesh.exchange(send, send_at, receive, receive_at)
        }

        fn collect(&mut self, data: &mut [u8], at: &[u64]) -> Result<()> {
            self.mesh.collect(data, at)
        }

        /// Closes the connections, which all others notice at once. `sconce launch` ends those that don't.
        fn abort(&mut self, _code: u8) {
            self.mesh.close();
        }
    }
}

#[cfg(unix)]
sconce_plugin_api::export_plugin!(transports: [sockets::Sockets]);
