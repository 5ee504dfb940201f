//! The keys that a block of queries needs.

use crate::kernels::PANEL;
use crate::options::VisibleKeys;

/// Number of queries processed at once.
pub(super) const BLOCK: usize = 2 * PANEL;

/// A block of queries of a row, in two panels.
///
/// Its weights are kept for the keys from `low` on, [`BLOCK`] for each.
pub(super) struct Block {
    pub(super) first: usize,
    pub(super) count: usize,
    /// First key that is computed, and the one after the last.
    pub(super) low: usize,
    pub(super) high: usize,
    panels: [Panel; 2],
}

/// Neighbouring queries of a block, and the keys that are computed for them: whole panels that contain what any of them sees.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// Place of the first query in the block, and number of queries.
    pub(super) start: usize,
    pub(super) count: usize,
    pub(super) begin: usize,
    pub(super) end: usize,
    /// First key that each query sees, and the one after the last, counted from `begin`; of a query that sees none, both are 0.
    /// Lanes without a query see what the last query sees.
    pub(super) begins: [u32; PANEL],
    pub(super) ends: [u32; PANEL],
}

impl Block {
    /// The block of a row's queries from `first` on.
    pub(super) fn of(
        visible: &VisibleKeys,
        row: usize,
        first: usize,
        counts: (usize, usize),
    ) -> Block {
        let count = BLOCK.min(counts.0 - first);
        let panels = [0, PANEL].map(|start| {
            let queries = (first + start, PANEL.min(count.saturating_sub(start)));
            Panel {
                start,
                ..Panel::of(visible, row, queries, counts)
            }
        });
        let used = panels.iter().filter(|panel| panel.keys() > 0);
        Block {
            first,
            count,
            low: used.clone().map(|panel| panel.begin).min().unwrap_or(0),
            high: used.map(|panel| panel.end).max().unwrap_or(0),
            panels,
        }
    }

    /// The panels of queries, also those that see nothing.
    pub(super) fn all_panels(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.count > 0)
    }

    /// The panels of queries that see anything.
    pub(super) fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.keys() > 0)
    }

    /// Index of a key's first weight.
    pub(super) fn line(&self, key: usize) -> usize {
        (key - self.low) * BLOCK
    }

    /// Number of weights.
    pub(super) fn room(&self) -> usize {
        (self.high - self.low).next_multiple_of(PANEL) * BLOCK
    }

    /// The queries, counted from the first, of which weights are computed for the panel of keys at `key`.
    pub(super) fn queries_of(&self, key: usize) -> Option<(usize, usize)> {
        let sees = |panel: &&Panel| (panel.begin..panel.end).contains(&key);
        let mut seeing = self.panels.iter().filter(sees);
        let first = seeing.next()?;
        let last = seeing.next().unwrap_or(first);
        Some((first.start, last.start + last.count))
    }

    /// Notes the panels of keys that any of its queries sees.
    pub(super) fn note_written(&self, written: &mut [bool]) {
        for panel in self.panels() {
            written[panel.begin / PANEL..panel.end.div_ceil(PANEL)].fill(true);
        }
    }
}

impl Panel {
    /// The panel of these queries, of which there may be none.
    fn of(
        visible: &VisibleKeys,
        row: usize,
        (first, count): (usize, usize),
        counts: (usize, usize),
    ) -> Panel {
        let mut panel = Panel {
            start: 0,
            count,
            begin: 0,
            end: 0,
            begins: [0; PANEL],
            ends: [0; PANEL],
        };
        if count == 0 {
            return panel;
        }
        let (mut low, mut high) = (usize::MAX, 0);
        let mut seen = [(0, 0); PANEL];
        for (lane, seen) in seen.iter_mut().enumerate() {
            let (begin, end) = visible.of(row, first + lane.min(count - 1), counts);
            if begin < end {
                (low, high) = (low.min(begin), high.max(end));
                *seen = (begin, end);
            }
        }
        if high == 0 {
            return panel;
        }
        panel.begin = low / PANEL * PANEL;
        panel.end = high.next_multiple_of(PANEL).min(counts.1);
        for (lane, (begin, end)) in seen.into_iter().enumerate() {
            panel.begins[lane] = begin.saturating_sub(panel.begin) as u32;
            panel.ends[lane] = end.saturating_sub(panel.begin) as u32;
        }
        panel
    }

    /// Number of keys that are computed.
    pub(super) fn keys(&self) -> usize {
        self.end - self.begin
    }
}
