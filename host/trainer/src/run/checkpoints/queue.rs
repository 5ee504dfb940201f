//! Requests of hooks that are being served.

use std::collections::VecDeque;

use sconce_plugin_api::ext::{Asked, serving_order};

/// A request and its hook's name.
pub(in crate::run) type AskedBy = (Asked, String);

/// Requests being served: those of the innermost mount point first, since serving one may call hooks that make others.
#[derive(Default)]
pub(in crate::run) struct RequestQueue(VecDeque<AskedBy>);

impl RequestQueue {
    /// Puts the requests of a mount point before those of the points around it: saves that others may refer to first, and
    /// otherwise in order. Returns how many those of the points around it are.
    pub(in crate::run) fn put_before_others(&mut self, mut asked: Vec<AskedBy>) -> usize {
        serving_order(&mut asked, |(asked, _)| asked);
        let waiting = self.0.len();
        for request in asked.into_iter().rev() {
            self.0.push_front(request);
        }
        waiting
    }

    /// Takes the next one out, if more than `waiting` are there.
    pub(in crate::run) fn next(&mut self, waiting: usize) -> Option<AskedBy> {
        (self.0.len() > waiting)
            .then(|| self.0.pop_front())
            .flatten()
    }

    /// Drops all but the last `waiting`.
    pub(in crate::run) fn drop_before(&mut self, waiting: usize) {
        self.0.drain(..self.0.len().saturating_sub(waiting));
    }

    pub(in crate::run) fn iter(&self) -> impl Iterator<Item = &AskedBy> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(names: &[&str]) -> Vec<AskedBy> {
        let names = names.iter();
        names
            .map(|name| (Asked::Validate, (*name).to_owned()))
            .collect()
    }

    #[test]
    fn requests_of_an_inner_mount_point_come_before_those_around_it() {
        let mut queue = RequestQueue::default();
        assert_eq!(queue.put_before_others(asked(&["outer", "later"])), 0);
        assert_eq!(queue.next(0).unwrap().1, "outer");
        let waiting = queue.put_before_others(asked(&["inner", "dropped"]));
        assert_eq!(queue.next(waiting).unwrap().1, "inner");
        queue.drop_before(waiting);
        assert!(queue.next(waiting).is_none());
        assert_eq!(queue.next(0).unwrap().1, "later");
    }
}
