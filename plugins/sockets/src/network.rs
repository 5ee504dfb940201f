//! An emulated network: calls take longer, as on one with this latency and bandwidth.
//!
//! For measurements of scaling on one machine (`tests/scaling.py`). After its bytes have arrived, a call lasts for the
//! latency of each message that this rank sends, one after the other, and the time that the bytes sent or received need,
//! whichever are more. It is counted from the arrival, not from the beginning: what a late rank sends arrives late
//! everywhere, and a rank that waited for it must not be ahead of it afterwards.

use std::time::{Duration, Instant};

/// Time that messages take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Network {
    /// Seconds of a message.
    latency: f64,
    /// Seconds of a byte.
    per_byte: f64,
}

impl Network {
    /// A network with this latency, in microseconds, and bandwidth, in MB/s; 0: whatever this machine has.
    pub(crate) fn new(microseconds: f64, megabytes: f64) -> Network {
        Network {
            latency: microseconds * 1e-6,
            per_byte: if megabytes > 0.0 {
                1e-6 / megabytes
            } else {
                0.0
            },
        }
    }

    /// How much longer a call lasts in which this rank sends and receives this much.
    pub(crate) fn duration(self, messages: usize, sent: usize, received: usize) -> Duration {
        let bytes = sent.max(received);
        Duration::from_secs_f64(self.latency * messages as f64 + self.per_byte * bytes as f64)
    }

    /// Waits for `duration`.
    pub(crate) fn wait(duration: Duration) {
        // Sleeping takes some fifty microseconds longer than asked for.
        const SLACK: Duration = Duration::from_micros(100);
        let begin = Instant::now();
        while let Some(rest) = duration.checked_sub(begin.elapsed()) {
            match rest.checked_sub(SLACK) {
                Some(most) => std::thread::sleep(most),
                None => std::hint::spin_loop(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_lasts_for_its_messages_and_its_bytes() {
        let network = Network::new(50.0, 100.0);
        assert_eq!(network.duration(0, 0, 0), Duration::ZERO);
        assert_eq!(network.duration(3, 0, 0), Duration::from_micros(150));
        assert_eq!(
            network.duration(1, 10, 1_000_000),
            Duration::from_micros(10_050)
        );
        assert_eq!(
            Network::new(0.0, 0.0).duration(9, 1 << 30, 0),
            Duration::ZERO
        );
        let begin = Instant::now();
        Network::wait(Duration::from_millis(1));
        assert!(begin.elapsed() >= Duration::from_millis(1));
    }
}
