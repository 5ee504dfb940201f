//! The transport `mpi`: moves bytes between processes on one machine or many, through an MPI.
//!
//! The library belongs to the MPI that it was built for: `MPICC=… cargo build --release` chooses one by its compiler
//! wrapper, by default `mpicc`. `mpirun -n 4 sconce team` checks it.
//!
//! The calls of MPI are in C (`shim.c`): handles and constants differ by implementation, and with its headers a
//! compiler for C is all that a site needs. `ffi` has them as safe functions.

#[expect(unsafe_code, reason = "calls functions in C")]
mod ffi;

use std::time::Duration;

use sconce_plugin_api::transport::{Transport, TransportFacts};
use sconce_plugin_api::{Result, export_plugin};

use ffi::Mpi;

impl Transport for Mpi {
    const NAME: &'static str = "mpi";
    const ABOUT: &'static str = concat!("Built for ", env!("SCONCE_MPI_BUILT_FOR"), ".");

    /// MPI has no timeouts; the host ends a process that waits for too long.
    fn open(_config: &str, _timeout: Duration) -> Result<Self> {
        Mpi::start()
    }

    fn facts(&mut self) -> Result<TransportFacts> {
        Ok(TransportFacts {
            rank: self.rank(),
            size: self.size(),
            hosts: self.hosts()?,
            about: about(&Mpi::library()?),
        })
    }

    fn broadcast(&mut self, data: &mut [u8], root: usize) -> Result<()> {
        self.broadcast_bytes(data, root)
    }

    fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<()> {
        self.gather_bytes(own, all)
    }

    fn exchange(
        &mut self,
        send: &[u8],
        send_at: &[u64],
        receive: &mut [u8],
        receive_at: &[u64],
    ) -> Result<()> {
        self.exchange_bytes((send, send_at), (receive, receive_at))
    }

    fn collect(&mut self, data: &mut [u8], at: &[u64]) -> Result<()> {
        self.collect_bytes(data, at)
    }

    fn abort(&mut self, code: u8) {
        self.end_all(code);
    }
}

export_plugin!(transports: [Mpi]);

/// Name and version of an MPI, of the lines that it says about itself: `Open MPI v4.1.4, package: …`,
/// `MPICH Version: 4.0.2`.
fn about(library: &str) -> String {
    let first = library.lines().next().unwrap_or_default();
    let name = first.split(',').next().unwrap_or_default();
    let words = name.split_whitespace().filter(|word| *word != "Version:");
    let words: Vec<&str> = words.collect();
    if words.is_empty() {
        return "an unknown MPI".to_owned();
    }
    words.join(" ").replace(" v", " ")
}

#[cfg(test)]
mod tests {
    use super::about;

    #[test]
    fn an_mpi_is_named_with_its_version() {
        let open_mpi = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4";
        assert_eq!(about(open_mpi), "Open MPI 4.1.4");
        let mpich = "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 2022\n";
        assert_eq!(about(mpich), "MPICH 4.0.2");
        assert_eq!(about(""), "an unknown MPI");
    }
}
