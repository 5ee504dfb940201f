//! Which keys a query sees: what the layer hides, and what the batch does.

use candle_core::{Result, bail};

use crate::Pass;
use crate::ops::{KeyIntervals, VisibleKeys};

/// What a layer lets its queries see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) causal: bool,
    /// Number of keys before a query and its own that it sees, if causal.
    pub(super) window: Option<usize>,
}

/// The keys that queries see, of `rows` with (queries, keys), the last query being of the last key's position.
pub(super) fn visible_keys(
    sight: Sight,
    pass: &mut Pass<'_>,
    rows: usize,
    (queries, keys): (usize, usize),
) -> Result<VisibleKeys> {
    let visibility = pass.visibility().cloned();
    let starts: Option<Vec<usize>> = pass.cache().and_then(|(cache, _)| {
        let starts = (0..rows).map(|row| cache.start(row));
        cache.has_padding().then(|| starts.collect())
    });
    if let Some(visibility) = &visibility {
        visibility.check(rows, queries)?;
        if queries != keys {
            bail!(
                "a pass that says what is visible can't continue a cache; give the cache its padding"
            )
        }
    }
    let is_wide = sight.window.is_none_or(|window| window >= keys);
    if visibility.is_none() && starts.is_none() && is_wide {
        return Ok(if sight.causal {
            VisibleKeys::Causal
        } else {
            VisibleKeys::All
        });
    }
    let first = keys - queries;
    let mut intervals = Vec::with_capacity(rows * queries);
    let listed = if visibility.is_none() && starts.is_none() {
        1
    } else {
        rows
    };
    for row in 0..listed {
        let start = starts.as_ref().and_then(|starts| starts.get(row)).copied();
        for query in 0..queries {
            let (mut begin, mut end) = match &visibility {
                Some(visibility) => visibility.span(row, query),
                None => (start.unwrap_or(0), keys),
            };
            if sight.causal {
                end = end.min(first + query + 1);
                let window = sight.window.unwrap_or(usize::MAX);
                begin = begin.max((first + query + 1).saturating_sub(window));
            }
            intervals.push([begin.min(end) as u32, end as u32]);
        }
    }
    Ok(VisibleKeys::Each(KeyIntervals::new(
        listed, queries, intervals,
    )?))
}
