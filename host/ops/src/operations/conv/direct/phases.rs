//! Which windows see an element of the input, along one side: what its gradient is a sum over.
//!
//! With a stride, elements are of as many phases: those of one phase are seen by the same taps of the kernel, and from one of them to the
//! next the windows move on by one.

use std::ops::Range;

/// One side of an image and of the windows over it.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub(super) image: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) padding: usize,
    pub(super) dilation: usize,
}

/// The elements of a phase along one side, and the taps that see them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    /// The first element of the image, without its padding.
    pub(super) first: usize,
    /// Number of elements.
    pub(super) count: usize,
    /// The window by which the first tap would see the first element: it may be before the first.
    window: isize,
    /// How many windows earlier the next tap sees an element.
    window_step: usize,
    first_tap: usize,
    tap_step: usize,
    /// Number of taps.
    pub(super) taps: usize,
}

impl Side {
    /// The phases, each of which has elements.
    pub(super) fn phases(self) -> impl Iterator<Item = Phase> {
        let Side {
            image,
            kernel,
            stride,
            padding,
            dilation,
        } = self;
        let common = gcd(stride, dilation);
        let tap_step = stride / common;
        (0..stride.min(image)).map(move |first| {
            // From the element to where the window begins of which the tap sees it.
            let back = |tap: usize| (first + padding).wrapping_sub(tap * dilation).cast_signed();
            let stride_signed = stride.cast_signed();
            let sees = |tap: &usize| back(*tap).rem_euclid(stride_signed) == 0;
            let first_tap = (0..tap_step.min(kernel)).find(sees);
            Phase {
                first,
                count: (image - first).div_ceil(stride),
                window: first_tap.map_or(0, |tap| back(tap).div_euclid(stride_signed)),
                window_step: dilation / common,
                first_tap: first_tap.unwrap_or(0),
                tap_step,
                taps: first_tap.map_or(0, |tap| (kernel - 1 - tap) / tap_step + 1),
            }
        })
    }
}

impl Phase {
    /// The place in the kernel of one of its taps.
    pub(super) fn tap(&self, index: usize) -> usize {
        self.first_tap + index * self.tap_step
    }

    /// The window, of those with padding on both sides, by which a tap sees an element of the phase.
    pub(super) fn window(&self, element: usize, tap: usize) -> isize {
        self.window + element.cast_signed() - (tap * self.window_step).cast_signed()
    }

    /// The taps that see an element of the phase in some of this many windows.
    pub(super) fn taps_of(&self, element: usize, windows: usize) -> Range<usize> {
        let of_first = self.window(element, 0);
        let step = self.window_step.cast_signed();
        let past = of_first - windows.cast_signed() + 1;
        let begin = past.max(0).cast_unsigned().div_ceil(self.window_step);
        let end = (of_first.div_euclid(step) + 1).max(0).cast_unsigned();
        begin.min(self.taps)..end.min(self.taps).max(begin.min(self.taps))
    }

    /// How many windows earlier the next tap sees an element.
    pub(super) fn window_step(&self) -> usize {
        self.window_step
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_a_window_and_a_tap_is_found_at_the_element_it_sees() {
        for (image, kernel, stride, padding, dilation) in [
            (9, 3, 1, 1, 1),
            (8, 3, 2, 1, 1),
            (10, 5, 3, 2, 1),
            (7, 1, 2, 0, 1),
            (12, 3, 2, 2, 2),
            (13, 4, 4, 3, 6),
            (5, 2, 7, 1, 3),
        ] {
            let windows = (image + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
            let mut expected = Vec::new();
            for window in 0..windows {
                for tap in 0..kernel {
                    let place = window * stride + tap * dilation;
                    if (padding..padding + image).contains(&place) {
                        expected.push((place - padding, window, tap));
                    }
                }
            }
            let side = Side {
                image,
                kernel,
                stride,
                padding,
                dilation,
            };
            let mut found = Vec::new();
            for phase in side.phases() {
                for element in 0..phase.count {
                    for tap in phase.taps_of(element, windows) {
                        let window = phase.window(element, tap).cast_unsigned();
                        found.push((phase.first + element * stride, window, phase.tap(tap)));
                    }
                }
            }
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}
